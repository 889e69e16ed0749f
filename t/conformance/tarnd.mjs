/* tarnd.mjs -- start and stop a tarnd for the suite. */
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'

const PATIENCE_MS = 30000

/* Resolves to { base, stop, death } once tarnd is ready; stop() resolves to its exit status, and
 * death() says how it ended if it did so of its own accord.  In the file `template` each {NAME} becomes
 * values.NAME. */
export async function startTarnd (program, template, values) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'tarn-conformance.'))
  const file = path.join(dir, 'tarn.yaml')
  const text = fs.readFileSync(template, 'utf8')
  fs.writeFileSync(file, text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole))
  const child = spawn(program, ['-c', file], { stdio: ['ignore', 'pipe', 'inherit'] })
  let ended = null
  const end = new Promise(resolve => {
    child.once('error', error => resolve(error.message))
    child.once('exit', (status, signal) => resolve(status ?? signal))
  }).then(how => {
    ended = how
    fs.rmSync(dir, { recursive: true, force: true })
    return how
  })

  async function stop () {
    child.kill('SIGTERM')
    const impatience = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS)
    const how = await end
    clearTimeout(impatience)
    return how
  }

  try {
    const address = await ready(child, end)
    return { base: `http://${address}`, stop, death: () => ended }
  } catch (error) {
    await stop()
    throw error
  }
}

/* The first address in the line "tarnd: ready ADDRESS...". */
function ready (child, end) {
  return new Promise((resolve, reject) => {
    let said = ''
    const impatience = setTimeout(
      () => reject(new Error('tarnd does not become ready')), PATIENCE_MS)
    child.stdout.on('data', data => {
      said += data
      const found = said.match(/^tarnd: ready (\S+)/m)
      if (found && said.includes('\n', found.index)) {
        clearTimeout(impatience)
        resolve(found[1])
      }
    })
    end.then(how => {
      clearTimeout(impatience)
      reject(new Error(`tarnd ended before it was ready: ${how}`))
    })
  })
}
