/* origin.mjs -- the suite's origin, on an address and a port of our choice.
 *
 * The handlers are the suite's.  Its own server.mjs listens on every interface, which a test has
 * no business to do. */
import http from 'node:http'

/* Resolves to { address, close }.  Port 0 is a free one. */
export async function startOrigin (suite, port) {
  const [config, state, test] = await Promise.all(['config', 'state', 'test'].map(name =>
    suite.load(`server/handle-${name}.mjs`).then(module => module.default)))
  const handlers = { config, state, test }
  const server = http.createServer((request, response) => {
    const [, name, ...segments] = new URL(request.url, 'http://origin/').pathname.split('/')
    if (Object.hasOwn(handlers, name)) {
      handlers[name](segments, request, response)
    } else {
      response.writeHead(404).end()
    }
  })
  /* Node's origins hang up on a proxy after 5 s of silence.  A PUT that is under way just then is
   * not sent again, and the suite would call that a failure of the test. */
  server.keepAliveTimeout = 0
  await new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  return {
    address: `127.0.0.1:${server.address().port}`,
    close () {
      server.close()
      server.closeAllConnections()
    }
  }
}
