import { connect } from '@parlance/client';
import OpenAI from 'openai';
import WebSocket from 'ws';
import { number } from '../../../packages/ui/src/shared/format.js';
import type { Answerer } from '../answerer.js';
import type { Report } from '../report.js';
import { answerTo } from '../responder.js';

/** The `openai` package over the session, with one extra line. */
export async function showSdk(url: string, { model, isEmbedded }: Answerer, report: Report): Promise<void> {
  report.section('The openai package with `fetch: session.fetch`');
  await using session = await connect(url, { WebSocket });
  const openai = new OpenAI({
    baseURL: 'http://session/v1',
    apiKey: 'unused',
    maxRetries: 0,
    fetch: session.fetch,
  });
  const messages = [{ role: 'user' as const, content: 'And how does it reach an SDK?' }];
  const expected = isEmbedded ? answerTo({ model, messages }) : undefined;
  const before = session.stats().received.wireBytes;

  let chunks = 0;
  let json = 0;
  let text = '';
  for await (const chunk of await openai.chat.completions.create({ model, messages, stream: true })) {
    chunks++;
    json += Buffer.byteLength(`data: ${JSON.stringify(chunk)}\n\n`);
    text += chunk.choices[0]?.delta.content ?? '';
  }
  const bytes = session.stats().received.wireBytes - before;
  report.line(text);
  report.check(
    `${chunks} pieces make up the complete answer`,
    expected === undefined ? text !== '' : text === expected,
  );
  report.line(`${number(bytes)} bytes on the connection; as an HTTP stream, uncompressed: ${number(json)}`);

  const whole = await openai.chat.completions.create({ model, messages });
  report.check(
    'the same answer without streaming',
    expected === undefined
      ? whole.choices[0]?.message.content !== ''
      : whole.choices[0]?.message.content === expected,
    `${whole.usage?.total_tokens ?? 'unknown'} tokens`,
  );
}
