/* main.mjs -- run the suite; `run` in this folder says how it is called. */
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import { createRequire } from 'node:module'
import os from 'node:os'
import path from 'node:path'
import process from 'node:process'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'

import { speakHttp2 } from './http2.mjs'
import { startOrigin } from './origin.mjs'
import { startTarnd } from './tarnd.mjs'
import { NO_EXCEPTIONS, complaints, judge, print, readExceptions } from './verdict.mjs'

/* A test pauses at most a few times for 3 s; a message that takes this long does not come. */
const FETCH_TIMEOUT_MS = 30000

/* Where scripts/fetch-conformance keeps packages too. */
const CACHE = process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache')

const here = path.dirname(fileURLToPath(import.meta.url))
const { options, programs } = readCommandLine()

function readCommandLine () {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        base: { type: 'string' },
        config: { type: 'string' },
        http2: { type: 'boolean', default: false },
        id: { type: 'string' },
        json: { type: 'string', default: 'conformance.json' },
        'origin-only': { type: 'boolean' },
        'origin-port': { type: 'string' },
        suite: { type: 'string', default: path.join(CACHE, 'tarn') }
      }
    })
    return { options: values, programs: positionals }
  } catch (error) {
    console.error(`run: ${error.message}`)
    process.exit(2)
  }
}

/* The suite's modules and tests, and its HTTP client.  What is not there yet is fetched. */
async function openSuite (dir) {
  const home = path.join(path.resolve(dir), 'conformance', 'node_modules', 'http-cache-tests')
  execFileSync(path.join(here, '../../scripts/fetch-conformance'), [dir], { stdio: 'inherit' })
  const load = file => import(pathToFileURL(path.join(home, file)))
  const [client, display, tests, surrogate] = await Promise.all([
    'client/runner.mjs',
    'lib/display.mjs',
    'tests/index.mjs',
    'tests/surrogate-control.mjs'
  ].map(load))
  const fetch = createRequire(path.join(home, 'cli.mjs'))('node-fetch')
  /* A connection each, as the suite has it with older versions of Node: one that is used again
   * may just then be closed for having been idle, which says nothing of a cache. */
  const agent = new http.Agent({ keepAlive: false })
  return {
    load,
    client,
    display,
    tests: [...tests.default, surrogate.default],
    fetch: (url, init) => fetch(url, { ...init, agent, timeout: FETCH_TIMEOUT_MS })
  }
}

/* Those suites that are to be run: all, or one with a single test, which shows its messages. */
function choose (suites, id) {
  if (id === undefined) return suites
  for (const suite of suites) {
    const test = suite.tests.find(test => test.id === id)
    if (test !== undefined) return [{ ...suite, tests: [{ ...test, dump: true }] }]
  }
  throw new Error(`there is no test ${id}`)
}

/* Judge, tell, and return whether all is well. */
function finish (suite, chosen, results, exceptions) {
  const alone = options.id !== undefined
  const rows = judge(suite.display, chosen, results, exceptions, !alone)
  if (alone) {
    for (const row of rows) console.log(`${row.id}: ${row.verdict} ${row.message ?? ''}`)
    return rows.every(row => row.verdict === 'pass' || row.verdict === 'yes')
  }
  print(rows)
  fs.writeFileSync(options.json, JSON.stringify({ tests: rows, results }, null, 2) + '\n')
  const wrong = complaints(rows, exceptions)
  console.log('')
  for (const sentence of wrong) console.log(`run: ${sentence}`)
  return wrong.length === 0
}

async function testBase (suite, base, exceptions) {
  const chosen = choose(suite.tests, options.id)
  const http2 = options.http2 ? speakHttp2(base) : null
  try {
    await suite.client.runTests(chosen, suite.fetch, false, base.replace(/\/$/, ''))
  } finally {
    http2?.close()
  }
  if (http2 !== null) {
    console.log(`${http2.counts.requests} requests by HTTP/2, connections: ${http2.counts.connections}`)
  }
  return finish(suite, chosen, suite.client.getResults(), exceptions)
}

async function testTarnd (suite, program, origin) {
  const byDefault = options.config === undefined
  const tarnd = await startTarnd(program, options.config ?? path.join(here, 'tarn.yaml'), {
    origin,
    h2c: options.http2 ? 'on' : 'off'
  })
  let well
  try {
    const exceptions = readExceptions(path.join(here, 'exceptions.json'), byDefault)
    well = await testBase(suite, tarnd.base, exceptions)
  } finally {
    const early = tarnd.death()
    const status = await tarnd.stop()
    if (early !== null || status !== 0) {
      console.log(`run: tarnd ended ${early === null ? 'when asked' : 'by itself'}: ${status}`)
      well = false
    }
  }
  return well
}

async function main () {
  const suite = await openSuite(options.suite)
  const wantsOrigin = options.base === undefined || options['origin-port'] !== undefined
  const origin = wantsOrigin ? await startOrigin(suite, Number(options['origin-port'] ?? 0)) : null
  try {
    if (options['origin-only']) {
      console.log(`origin: ready ${origin.address}`)
      await new Promise(resolve => {
        for (const name of ['SIGINT', 'SIGTERM']) process.once(name, resolve)
      })
      return true
    }
    if (options.base !== undefined) return await testBase(suite, options.base, NO_EXCEPTIONS)
    if (programs.length !== 1) throw new Error('one TARND is needed, or --base')
    return await testTarnd(suite, programs[0], origin.address)
  } finally {
    origin?.close()
  }
}

main().then(
  well => { process.exitCode = well ? 0 : 1 },
  error => {
    console.error(`run: ${error.message}`)
    process.exitCode = 2
  })
