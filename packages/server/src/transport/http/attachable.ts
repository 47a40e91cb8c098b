import { ProtocolError } from '@parlance/protocol';

/**
 * Checks what an application passes to `attach`, as an app of a framework has the methods of an HTTP server but never
 * receives an upgrade.
 *
 * @throws {ProtocolError} `invalid_argument` if it is not an HTTP server.
 */
export function assertHttpServer(server: unknown): void {
  if (has(server, 'on') && has(server, 'off') && has(server, 'listen') && has(server, 'address')) return;
  throw new ProtocolError(
    'invalid_argument',
    `attach: expected an HTTP server of Node; ${adviceFor(server)}`,
  );
}

/**
 * Checks what an application passes as a function of a `Request` or of a message: an app of Express, Connect or Koa, or what `express()`
 * returns, is a function too, but of the requests and responses of Node.
 *
 * @throws {ProtocolError} `invalid_option` if it is an app.
 */
export function assertNoApp(given: unknown, option: string): void {
  if (typeof given !== 'function' || !(has(given, 'listen') || has(given, 'handle'))) return;
  const what = 'this is an app for the requests of Node';
  throw new ProtocolError(
    'invalid_option',
    `${option}: ${what}; serve it with createServer(app) of node:http, and sessions beside it with attach(httpServer)`,
  );
}

function adviceFor(given: unknown): string {
  if (typeof given === 'number') return `call listen({ port: ${given} }) to open a port`;
  if (has(given, 'listen') && typeof given === 'function')
    return 'this is an app, so pass createServer(app) of node:http, or what app.listen() returns';
  if (isObject(given) && has(given['server'], 'listen'))
    return 'this object has one as its property "server"';
  return `this is ${given === null ? 'null' : `of type ${typeof given}`}`;
}

function has(value: unknown, method: string): boolean {
  return isObject(value) && typeof value[method] === 'function';
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}
