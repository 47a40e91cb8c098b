import type { Feature } from '../parts/part.js';
import { RelayScan } from './relay-scan.js';
import { type Scan, Scanner } from './scan.js';

/**
 * Checks every message, request and relayed reply before it is delivered.
 *
 * @param tells whether clients may ask for the results. @default true
 */
export const scan = (check: Scan, tells = true): Feature => ({
  name: 'scan',
  install: ({ options }) => ({
    offer: { securityScanning: tells },
    endpoint: { createScanner: (session) => new Scanner(check, session, options.logger) },
    route: (session, next) => next && new RelayScan(next, session.scanner as Scanner, session),
  }),
});
