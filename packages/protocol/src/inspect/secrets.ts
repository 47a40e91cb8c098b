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

/** Stands for a credential. */
export const REDACTED = '[redacted]';

const USER = /^([a-z][a-z0-9+.-]*:\/\/)[^\s/?#]*@/i;
const QUERY = /^((?:\/|[a-z][a-z0-9+.-]*:\/\/)[^\s?]*)\?(\S+)$/i;

/**
 * A path or a URL without what its query says and whose user it names, which may be a credential under
 * any name; any other text is as it was.
 */
export function withoutSecrets(text: string): string {
  return text.replace(USER, `$1${REDACTED}@`).replace(QUERY, (_all, place: string, query: string) => {
    const names = query.split('&').map((pair) => {
      const end = pair.indexOf('=');
      return end < 0 ? REDACTED : `${pair.slice(0, end)}=${REDACTED}`;
    });
    return `${place}?${names.join('&')}`;
  });
}
