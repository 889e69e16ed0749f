/* http2.mjs -- node-fetch's requests over HTTP/2, by prior knowledge.
 *
 * node-fetch calls http.request for each message, and that is all of Node's client that it knows.  Another
 * function in its place leaves what it says as it is, and changes only how it is said: the same method, target
 * and fields.  The blanks around a value, which HTTP/1's parsers take off (RFC 9112 5), are taken off here: HTTP/2
 * has none (RFC 9113 8.2.1), and 13 of the suite's tests would send malformed requests for them.  All messages share
 * one connection, up to a hundred at a time, and a new one is taken when that is closed. */
import { EventEmitter } from 'node:events'
import http from 'node:http'
import http2 from 'node:http2'

/* From here on each request of this process goes to `base`.  Returns { counts, close }. */
export function speakHttp2 (base) {
  const counts = { requests: 0, connections: 0 }
  const before = http.request
  let session = null

  function connection () {
    if (session === null || session.closed || session.destroyed) {
      session = http2.connect(base)
      session.on('error', () => {}) // its streams say so too
      counts.connections++
    }
    return session
  }

  http.request = function (options) {
    const { Host: authority = options.host, ...fields } = options.headers
    counts.requests++
    return send(connection(), {
      ':method': options.method,
      ':scheme': 'http',
      ':authority': authority,
      ':path': options.path,
      ...trimmed(fields)
    })
  }
  return {
    counts,
    close () {
      http.request = before
      session?.close()
    }
  }
}

/* Each value is a list, or a text. */
function trimmed (fields) {
  const trim = value => value.replace(/^[ \t]+|[ \t]+$/g, '')
  return Object.fromEntries(Object.entries(fields).map(
    ([name, value]) => [name, Array.isArray(value) ? value.map(trim) : trim(value)]))
}

/* What node-fetch uses of a http.ClientRequest. */
function send (session, fields) {
  const stream = session.request(fields, { endStream: fields['Content-Length'] === undefined })
  const request = Object.assign(new EventEmitter(), {
    write: bytes => stream.write(bytes),
    end: bytes => stream.end(bytes),
    abort: () => stream.close(http2.constants.NGHTTP2_CANCEL)
  })
  let answered = false
  stream.once('response', ({ ':status': statusCode, ...headers }) => {
    answered = true
    request.emit('response', Object.assign(stream, { statusCode, statusMessage: '', headers }))
  })
  stream.on('error', error => request.emit('error', error))
  /* Of some codes of RST_STREAM Node makes an end that looks like any other. */
  stream.once('aborted', () => request.emit('error', new Error(`reset: ${stream.rstCode}`)))
  stream.once('close', () => {
    if (!answered) request.emit('error', new Error(`no response: ${stream.rstCode}`))
  })
  process.nextTick(() => request.emit('socket', stream))
  return request
}
