import { connect } from '@parlance/client';
import { ProtocolError } from '@parlance/protocol';
import WebSocket from 'ws';
import type { Report } from '../report.js';

/** (a) Two clients with different offers, (b) one with nothing in common with the server. */
export async function showNegotiation(url: string, report: Report): Promise<void> {
  report.section('Negotiation');
  for (const [name, options] of CLIENTS) {
    await using session = await connect(url, { WebSocket, ...options });
    const { algorithms, encoding } = session.negotiated;
    report.line(`${name} offers ${options.algorithms.join(', ')} and ${options.encodings.join(', ')}`);
    const expected = options.algorithms.filter((algorithm) => SERVER.includes(algorithm));
    report.check(
      `agreed on ${algorithms.join(', ')}: the common ones, in the client's order`,
      algorithms.join() === expected.join(),
    );
    report.check(`agreed on ${encoding}, which the client prefers`, encoding === options.encodings[0]);
  }

  report.section('Nothing in common');
  const refused = await connect(url, { WebSocket, algorithms: ['DICTIONARY'] }).then(
    () => undefined,
    (error: unknown) => error,
  );
  const rejection = refused instanceof ProtocolError ? refused.reject : undefined;
  report.check(
    'the server answers REJECT NO_COMMON_ALGORITHM',
    rejection?.code === 'NO_COMMON_ALGORITHM',
    rejection?.message,
  );
}

/** Algorithms of the demo's server. */
const SERVER = ['M2M', 'TOKEN_NATIVE', 'BROTLI', 'NONE'] as const as readonly string[];

const CLIENTS = [
  [
    'an agent',
    { algorithms: ['TOKEN_NATIVE', 'M2M', 'TOKEN', 'NONE'], encodings: ['O200K_BASE', 'CL100K_BASE'] },
  ],
  ['a browser', { algorithms: ['BROTLI', 'NONE'], encodings: ['CL100K_BASE'] }],
] as const;
