import type { SecureContextOptions, TlsOptions } from 'node:tls';

/** The options of the port that a client has too. `rejectUnauthorized` is about clients there, and stays on here. */
export function clientSide(tls: TlsOptions | undefined): SecureContextOptions | undefined {
  if (tls === undefined) return undefined;
  const { ca, cert, key, pfx, passphrase, ciphers, crl, minVersion, maxVersion } = tls;
  const given = { ca, cert, key, pfx, passphrase, ciphers, crl, minVersion, maxVersion };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}
