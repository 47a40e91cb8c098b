/** Names under which credentials travel in control messages and in the metadata of messages. */
const SECRET_NAMES: ReadonlySet<string> = new Set([
  'token',
  'auth',
  'authorization',
  'proxyauthorization',
  'cookie',
  'setcookie',
  'password',
  'secret',
  'apikey',
  'xapikey',
  'credentials',
]);

/** Whether the value under a name is nobody's business. */
export function isSecretName(name: string): boolean {
  return SECRET_NAMES.has(name.toLowerCase().replaceAll(/[-_]/g, ''));
}
