import { ProtocolError } from '@parlance/protocol';
import type { Feature } from '../server/features/feature.js';
import type { OwnHooks, OwnHost } from '../server/features/own-feature.js';
import { RelayScan } from './relay-scan.js';
import { type Scan, Scanner } from './scan.js';

/**
 * Checks every message, request and relayed reply before it is delivered.
 *
 * @param tells whether clients may ask for the results. @default true
 * @throws {ProtocolError} `invalid_option` unless `check` is a function.
 */
export function scan(check: Scan, tells = true): Feature {
  if (typeof check !== 'function') throw new ProtocolError('invalid_option', 'scan: a function is expected');
  return {
    name: 'scan',
    install: ({ options }: OwnHost): OwnHooks => ({
      offer: { securityScanning: tells },
      endpoint: { createScanner: (session) => new Scanner(check, session, options.logger) },
      route: (session, next) => next && new RelayScan(next, session.scanner as Scanner, session),
    }),
  };
}
