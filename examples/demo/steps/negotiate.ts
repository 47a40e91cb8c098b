import { connect } from '@parlance/client';
import { negotiate, ProtocolError } from '@parlance/protocol';
import WebSocket from 'ws';
import type { Report } from '../report.js';

/** (a) Two clients with different lists, (b) one with nothing in common. */
export async function showNegotiation(url: string, report: Report): Promise<void> {
  report.section('Negotiation');
  const rows: string[][] = [];
  for (const [name, options] of CLIENTS) {
    await using session = await connect(url, { WebSocket, ...options });
    const { algorithms, encoding } = session.negotiated;
    rows.push([
      name,
      options.algorithms.join(', '),
      options.encodings.join(', '),
      algorithms.join(', '),
      encoding ?? 'none',
    ]);
    const expected = options.algorithms.filter((algorithm) => algorithm !== 'TOKEN' || name !== 'agent');
    report.check(
      `${name}: agreed in the client's order`,
      algorithms.join() === expected.filter((a) => SERVER.includes(a)).join(),
    );
    report.check(`${name}: its preferred encoding`, encoding === options.encodings[0]);
  }
  report.table(['client', 'offers', 'encodings', 'agreed', 'encoding'], rows);
  for (const reason of reasonsFor(CLIENTS[0][1])) report.line(`why: ${reason}`);

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

/** What the demo's server supports. */
export const SERVER = ['M2M', 'TOKEN_NATIVE', 'BROTLI', 'NONE'] as const as readonly string[];

const CLIENTS = [
  [
    'agent',
    { algorithms: ['TOKEN_NATIVE', 'M2M', 'TOKEN', 'NONE'], encodings: ['O200K_BASE', 'CL100K_BASE'] },
  ],
  ['browser', { algorithms: ['BROTLI', 'NONE'], encodings: ['CL100K_BASE'] }],
] as const;

/** The same pure function that the server has just used. */
function reasonsFor(options: (typeof CLIENTS)[number][1]): readonly string[] {
  const outcome = negotiate(
    {
      shape: 'flat',
      version: '1.0',
      algorithms: options.algorithms,
      encodings: options.encodings,
      preferredEncoding: options.encodings[0],
      securityScanning: false,
      maxPayloadSize: 0,
      supportsStreaming: true,
      extensions: {},
    },
    {
      algorithms: ['M2M', 'TOKEN_NATIVE', 'BROTLI', 'NONE'],
      encodings: ['CL100K_BASE', 'O200K_BASE'],
      vocabularies: {},
      securityScanning: false,
      maxPayloadSize: 0,
      extensions: {},
    },
  );
  return outcome.accepted ? outcome.agreement.reasons : [];
}
