import { connect } from '@parlance/client';
import WebSocket from 'ws';
import { number } from '../../../packages/ui/src/shared/format.js';
import type { Answerer } from '../answerer.js';
import type { ChatRequest } from '../chat-completion.js';
import type { Report } from '../report.js';
import { answerTo } from '../responder.js';

/** Parts of the answer before the cut. */
const BEFORE = 5;
const QUESTION = 'Write a debounce function in TypeScript.';

/** Cuts the connection in mid-answer. The session resumes, and the answer is the one that the server has generated. */
export async function showCut(url: string, { model, isEmbedded }: Answerer, report: Report): Promise<void> {
  report.section('A connection cut in mid-answer');
  const sockets: WebSocket[] = [];
  class KnownWebSocket extends WebSocket {
    constructor(address: string, protocols?: string | string[], options?: WebSocket.ClientOptions) {
      super(address, protocols, options);
      sockets.push(this);
    }
  }
  await using session = await connect(url, { WebSocket: KnownWebSocket });
  const { id } = session;
  const messages = [{ role: 'user' as const, content: QUESTION }];
  const question: ChatRequest = { model, messages, stream: true };
  let parts = 0;
  let text = '';
  let cutAt = 0;
  let goneMs: number | undefined;
  for await (const part of session.stream(question)) {
    parts++;
    text += part.text;
    if (parts === BEFORE) {
      cutAt = performance.now();
      // Without a word to the server, as when a cable is pulled.
      sockets.at(-1)?.terminate();
      const isBack = new Promise<void>((resolve) => {
        session.on('state', (state) => state === 'established' && resolve());
      });
      await isBack;
      goneMs = performance.now() - cutAt;
    }
  }
  report.line(
    `Cut after ${BEFORE} pieces of the answer, back after ${Math.round(goneMs ?? 0)} ms, then ${number(parts - BEFORE)} more.`,
  );
  report.check(
    'the same session continued, over a second connection',
    session.id === id && sockets.length === 2,
    `${sockets.length} connections`,
  );
  report.check(
    'nothing is missing, and nothing came twice',
    isEmbedded ? text === answerTo(question) : parts > BEFORE,
    `${number(parts)} pieces`,
  );
}
