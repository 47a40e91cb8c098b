import { connect } from '@parlance/client';
import WebSocket from 'ws';
import { number } from '../../../packages/ui/src/shared/format.js';
import type { Answerer } from '../answerer.js';
import type { ChatRequest } from '../chat-completion.js';
import type { Report } from '../report.js';
import { answerTo } from '../responder.js';

/** (d) A streamed answer, part by part, without HTTP. */
export async function showStream(url: string, { isEmbedded }: Answerer, report: Report): Promise<void> {
  // With an API, parts are events; the next section shows those.
  if (!isEmbedded) return;
  report.section('A streamed answer');
  await using session = await connect(url, { WebSocket });
  const question: ChatRequest = {
    model: 'gpt-4o',
    messages: [{ role: 'user', content: 'How does a token reach me?' }],
    stream: true,
  };
  const before = session.stats();
  const stream = session.stream(question);
  let parts = 0;
  let text = '';
  for await (const part of stream) {
    parts++;
    text += part.text;
  }
  const bytes = session.stats().received.wireBytes - before.received.wireBytes;
  report.line(text);
  report.check(
    `${parts} parts on stream ${stream.id} make up the complete answer`,
    text === answerTo(question) && parts > 10,
  );
  report.line(
    `${number(bytes)} bytes on the socket for ${number(Buffer.byteLength(text))} bytes of text, ${(bytes / parts).toFixed(1)} per part`,
  );
}
