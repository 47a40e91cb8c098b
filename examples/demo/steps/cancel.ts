import { connect } from '@parlance/client';
import WebSocket from 'ws';
import type { Answerer } from '../answerer.js';
import type { ChatRequest } from '../chat-completion.js';
import type { Report } from '../report.js';

/** Leaves an answer in the middle, which stops the model. */
export async function showCancel(url: string, { model, cancelled }: Answerer, report: Report): Promise<void> {
  report.section('A cancel that reaches the model');
  await using session = await connect(url, { WebSocket });
  const messages = [{ role: 'user' as const, content: 'How does an answer survive a lost connection?' }];
  const question: ChatRequest = { model, messages, stream: true };
  const before = cancelled();
  let parts = 0;
  for await (const _part of session.stream(question)) if (++parts === 3) break;
  const isOver = () => cancelled() === before + 1 && session.stats().openStreams === 0;
  for (let i = 0; i < 100 && !isOver(); i++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  report.line('The client stopped reading after 3 pieces, and called nothing else.');
  report.check('the model was told to stop, and nothing is left open', isOver());
}
