/* verdict.mjs -- judge the results as the suite's own display does, and tell them.
 *
 *   verdict   a word for each symbol of the suite's lib/display.mjs
 *   excused   named in exceptions.json: known not to pass, with the reason
 */
import fs from 'node:fs'

const VERDICTS = {
  '✅': 'pass',
  '⛔️': 'fail',
  '⚠️': 'fail',
  Y: 'yes',
  N: 'no',
  '🔹': 'setup',
  '⁉️': 'harness',
  '⚪️': 'dependency',
  '↻': 'retry',
  '-': 'untested'
}
const COLUMNS = ['pass', 'fail', 'dependency', 'setup', 'retry', 'harness', 'untested', 'yes', 'no']
const KINDS = ['required', 'optimal', 'check']

/* One row for each test that was to be run: { id, suite, kind, verdict, message, why }.  `message`
 * is what the suite says of a failure, and `why` the excuse. */
export function judge (display, suites, results, exceptions, honorDependencies) {
  const rows = []
  for (const suite of suites) {
    for (const test of suite.tests) {
      if (test.browser_only === true) continue
      const kind = test.kind ?? 'required'
      const symbol = display.determineTestResult(suites, test.id, results, honorDependencies)[2]
      const result = results[test.id]
      rows.push({
        id: test.id,
        suite: suite.id,
        kind,
        verdict: VERDICTS[symbol],
        message: Array.isArray(result) ? result.join(': ') : undefined,
        why: exceptions[kind]?.[test.id]
      })
    }
  }
  return rows
}

/* `byDefault`: tarnd runs with every default, and some more is excused. */
export function readExceptions (file, byDefault) {
  const { by_default: more, ...base } = JSON.parse(fs.readFileSync(file, 'utf8'))
  if (!byDefault) return base
  return {
    optimal_floor: more.optimal_floor,
    required: { ...base.required, ...more.required },
    optimal: { ...base.optimal, ...more.optimal }
  }
}

export const NO_EXCEPTIONS = { optimal_floor: 0, required: {}, optimal: {} }

function passes (row) {
  return row.verdict === 'pass' || row.verdict === 'yes'
}

/* What makes the run a failure, as sentences. */
export function complaints (rows, exceptions) {
  const found = []
  const bad = rows.filter(row => row.kind === 'required' && !passes(row) && row.why === undefined)
  if (bad.length > 0) {
    found.push(`required, and not passed: ${bad.map(row => row.id).join(' ')}`)
  }
  const optimal = rows.filter(row => row.kind === 'optimal' && passes(row)).length
  if (optimal < exceptions.optimal_floor) {
    found.push(`${optimal} optimal tests pass, and the floor is ${exceptions.optimal_floor}`)
  }
  for (const row of rows) {
    if (passes(row) && row.why !== undefined) {
      found.push(`${row.id} passes, so exceptions.json need not excuse it`)
    }
  }
  for (const kind of ['required', 'optimal']) {
    for (const id of Object.keys(exceptions[kind])) {
      if (!rows.some(row => row.id === id && row.kind === kind)) {
        found.push(`exceptions.json excuses ${id}, which is no ${kind} test`)
      }
    }
  }
  return found
}

export function print (rows) {
  printTable('kind', KINDS, rows, row => row.kind)
  printTable('suite', [...new Set(rows.map(row => row.suite))], rows, row => row.suite)
  for (const kind of KINDS) {
    const wrong = rows.filter(row => row.kind === kind && !passes(row))
    if (wrong.length === 0) continue
    console.log(`\n${kind}, not passed:`)
    for (const row of wrong) {
      const reason = row.why ?? row.message ?? 'what it depends on does not pass'
      const mark = row.why === undefined ? '' : ' (excused)'
      console.log(`  ${row.verdict.padEnd(10)} ${row.id}${mark}`)
      if (kind !== 'check') console.log(`             ${reason}`)
    }
  }
}

function printTable (title, names, rows, nameOf) {
  const columns = COLUMNS.filter(column => rows.some(row => row.verdict === column))
  console.log('\n' + title.padEnd(20) + ['tests', ...columns].map(cell).join(''))
  for (const name of names) {
    const those = rows.filter(row => nameOf(row) === name)
    const counts = columns.map(column => those.filter(row => row.verdict === column).length)
    console.log(name.padEnd(20) + [those.length, ...counts.map(n => n || '.')].map(cell).join(''))
  }
}

function cell (text) {
  return String(text).padStart(Math.max(6, String(text).length + 2))
}
