import { fileURLToPath } from 'node:url';
import { createServer } from '@parlance/server';
import { buildUserInterface } from '../../scripts/build-ui.js';
import { readCommandLine } from '../../scripts/command-line.js';
import { createAnswerer } from './answerer.js';
import { showCluster } from './cluster/story.js';
import { createReport } from './report.js';
import { serveChatPage } from './serve-chat.js';
import { showCancel } from './steps/cancel.js';
import { type RoutingRecord, showChat } from './steps/chat.js';
import { showControl } from './steps/control.js';
import { showCut } from './steps/cut.js';
import { showKill } from './steps/kill.js';
import { showNegotiation } from './steps/negotiate.js';
import { showSdk } from './steps/sdk.js';
import { showStream } from './steps/stream.js';
import { showTensors } from './steps/tensors.js';

/** `npm run demo`: a scripted exchange over real sockets, then a chat page until Ctrl-C. */

const USAGE = `npm run demo -- [--once] [--verbose]
npm run demo -- --cluster

  --once      exit after the report, with exit code 0 only if every check passed
  --verbose   show the wire as well: negotiation, refusals, streams, control messages
  --cluster   instead, kill the node that answers in mid-answer; needs redis-server`;

const { values } = readCommandLine(USAGE, {
  options: {
    once: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
    cluster: { type: 'boolean', default: false },
  },
});
const report = createReport();
if (values.cluster) {
  await showCluster(report);
  process.exit(report.failures === 0 ? 0 : 1);
}
// Meanwhile, the report is shown.
const isBuilt = values.once ? undefined : buildUserInterface();
isBuilt?.catch(() => {});
const nodeModules = fileURLToPath(new URL('../../node_modules', import.meta.url));
const routed: RoutingRecord[] = [];
// As a model does, so that there is something to cut and to stop.
const answerer = createAnswerer({ delayMs: 5 });

const server = createServer({
  algorithms: ['M2M', 'TOKEN_NATIVE', 'BROTLI', 'NONE'],
  encodings: ['CL100K_BASE', 'O200K_BASE'],
  onRequest: answerer.onRequest,
  async onSession(session) {
    for await (const message of session) {
      if (message.tensor?.data !== undefined) {
        const { data, shape, dtype, payloadType } = message.tensor;
        await session.sendTensor({ data, shape, dtype, payloadType });
        continue;
      }
      const { header } = message;
      if (header?.schema === 'request') routed.push(header);
      const { algorithm } = message;
      if (algorithm !== 'AVP') await session.send(message.text, { algorithm });
    }
  },
});

report.line('Starting a server …');
const { url } = await server.listen({ port: 0 });
let saved: string;
try {
  saved = await showChat(url, nodeModules, routed, report);
  await showCut(url, answerer, report);
  await showKill(report);
  await showCancel(url, answerer, report);
  await showSdk(url, answerer, report);
  await showTensors(url, report);
  const wire = values.verbose ? report : report.hidden();
  await showNegotiation(url, wire);
  await showStream(url, answerer, wire);
  await showControl(url, wire);
} finally {
  await server.close({ sessions: 'end' });
}
report.section('In short');
if (report.failures === 0)
  report.line(
    `The bodies of the 12 requests took ${saved.slice(1)} fewer bytes than with gzip. After a cut connection, the answer ${answerer.isEmbedded ? 'was whole' : 'continued'}; after two kills of a server, it was whole. The killed server kept its sessions in a file: without a store, a kill ends the answer.`,
  );
report.line(
  `${report.checks - report.failures} of ${report.checks} checks passed${values.verbose ? '' : '. --verbose shows those of negotiation and control messages, too'}.`,
);
process.exitCode = report.failures === 0 ? 0 : 1;

if (isBuilt !== undefined) {
  await isBuilt;
  await serveChatPage();
}
