import { gzipSync } from 'node:zlib';
import { connect, type Session } from '@parlance/client';
import type { Algorithm } from '@parlance/protocol';
import WebSocket from 'ws';
import type { ChatRequest } from '../chat-completion.js';
import { buildConversation } from '../conversation.js';
import type { Report } from '../report.js';

/** Fields that the server read from an M2M header without decompressing the payload. */
export interface RoutingRecord {
  readonly model: string;
  readonly roles: readonly string[];
  readonly maxTokens?: number;
}

const TURNS = 12;

/**
 * Sends a conversation as TokenNative, as M2M v1, and with the default codec; the server echoes it.
 *
 * @returns how much smaller the requests are than with gzip, such as `−74 %`.
 */
export async function showChat(
  url: string,
  nodeModules: string,
  routed: RoutingRecord[],
  report: Report,
): Promise<string> {
  const requests = buildConversation(nodeModules, TURNS);
  const last = requests.at(-1) as ChatRequest;
  report.section(`Savings: ${TURNS} requests of a chat, each with all before it`);
  await using session = await connect(url, { WebSocket });
  const rows: (string | number)[][] = [];
  let saved = '';
  for (const algorithm of ['TOKEN_NATIVE', 'M2M', 'auto'] as const) {
    routed.length = 0;
    const { sent, json, gzip, equal } = await echo(session, requests, algorithm);
    const name = algorithm === 'auto' ? 'default' : algorithm;
    saved = changeOf(sent / gzip);
    rows.push([name, json, gzip, sent, bar(sent / json), changeOf(sent / json), saved]);
    report.check(`${name}: all ${requests.length} requests came back unchanged`, equal);
    if (algorithm === 'M2M') {
      const record = routed.at(-1);
      report.check(
        'the server read model, roles and max_tokens without decoding the rest',
        record?.model === last.model &&
          record.maxTokens === last.max_tokens &&
          record.roles?.join() === last.messages.map((message) => message.role).join(),
        `${record?.model}, ${record?.roles?.length} roles, max_tokens ${record?.maxTokens}`,
      );
    }
  }
  report.table(['codec', 'JSON', 'gzip', 'sent', '', 'to JSON', 'to gzip'], rows);
  report.line(
    'TOKEN_NATIVE sends words as the numbers of a tokenizer. M2M has a short header for routers. By default, both ends keep earlier messages, and only new text is sent.',
  );
  report.line(
    'Counted are the bytes of the bodies of requests, without headers and frames. gzip has each by itself; most apps send them uncompressed. `npm run bench -- savings` counts every byte.',
  );
  return saved;
}

/** @param part of the whole, such as 0.26 for `−74 %`. */
function changeOf(part: number): string {
  const percent = Math.round((part - 1) * 100);
  return `${percent < 0 ? '−' : '+'}${Math.abs(percent)} %`;
}

const BAR = 12;

/** @param part of the whole, from 0 to 1. */
function bar(part: number): string {
  const filled = Math.min(BAR, Math.max(1, Math.round(part * BAR)));
  return '█'.repeat(filled) + '░'.repeat(BAR - filled);
}

async function echo(session: Session, requests: readonly ChatRequest[], algorithm: Algorithm | 'auto') {
  const before = session.stats().sent.wireBytes;
  let json = 0;
  let gzip = 0;
  let equal = true;
  const echoes = session[Symbol.asyncIterator]();
  for (const request of requests) {
    const text = JSON.stringify(request);
    json += Buffer.byteLength(text);
    gzip += gzipSync(text, { level: 6 }).length;
    await session.send(text, { algorithm });
    const { value } = await echoes.next();
    equal &&= value?.text === text;
  }
  await echoes.return?.();
  return { sent: session.stats().sent.wireBytes - before, json, gzip, equal };
}
