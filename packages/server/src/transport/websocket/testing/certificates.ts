import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const OPENSSL = '/usr/bin/openssl';

/** Why tests that need certificates are skipped; `undefined` if they are not. In CI it has to be there. */
export const opensslMissing: string | undefined =
  existsSync(OPENSSL) || process.env['CI'] === 'true'
    ? undefined
    : 'skipped without openssl: apt-get install openssl';

/** Paths of files in PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** Authorities and certificates that openssl makes, in a temporary folder. */
export class Certificates implements Disposable {
  readonly #folder = mkdtempSync(join(tmpdir(), 'parlance-certificates-'));
  #count = 0;

  authority(): Certificate {
    const made = this.#next();
    const { cert, key } = made;
    call('req', '-x509', ...NEW_KEY, '-keyout', key, '-out', cert, '-subj', '/CN=authority', '-days', '2');
    return made;
  }

  /** @param names such as `IP:127.0.0.1,DNS:node`. @param days until it expires; negative for the past. */
  issue(authority: Certificate, names = 'IP:127.0.0.1', days = 2): Certificate {
    const made = this.#next();
    const { cert, key } = made;
    const request = `${cert}.csr`;
    const subject = ['-subj', '/CN=node', '-addext', `subjectAltName=${names}`];
    call('req', ...NEW_KEY, '-keyout', key, '-out', request, ...subject);
    const signed = ['-CA', authority.cert, '-CAkey', authority.key, '-copy_extensions', 'copy'];
    call('x509', '-req', '-in', request, ...signed, '-days', String(days), '-out', cert);
    return made;
  }

  file(content: string): string {
    const path = join(this.#folder, `${this.#count++}.txt`);
    writeFileSync(path, content);
    return path;
  }

  #next(): Certificate {
    const path = join(this.#folder, String(this.#count++));
    return { cert: `${path}.crt`, key: `${path}.key` };
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

function call(...args: readonly string[]): void {
  execFileSync(OPENSSL, args, { stdio: 'pipe' });
}
