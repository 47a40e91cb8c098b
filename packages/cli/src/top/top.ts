import { setTimeout as pause } from 'node:timers/promises';
import { type AdminSessions, type AdminState, figuresOf } from '@parlance/server/admin';
import type { Keys } from '../base/command.js';
import { CommandFailure, ExitCode } from '../base/failure.js';
import type { Terminal } from '../base/terminal.js';
import { topLines } from './top-view.js';

export interface TopOptions {
  readonly token: string | undefined;
  readonly intervalMs: number;
  /** Print one look and exit. */
  readonly isOnce: boolean;
}

/** How rows can be sorted, in the order of the key `s`. */
export const SORTS = ['wire', 'streams', 'queued', 'age', 'roundTrip'] as const;
const ROWS = 200;
/** How long the server may take to answer, in milliseconds. */
const ANSWER_MS = 10_000;
const ALTERNATE = '\u001b[?1049h\u001b[?25l';
const NORMAL = '\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const CLEAR_REST = '\u001b[J';
const CLEAR_LINE = '\u001b[K';

/** `parlance top`: a server's figures and sessions, like those of the dashboard. */
export async function top(
  url: string,
  options: TopOptions,
  terminal: Terminal,
  keys: Keys | undefined,
): Promise<ExitCode> {
  const base = baseOf(url);
  const read = <T>(path: string) => readJson<T>(new URL(path, base), options.token);
  let sort = 0;
  let isReversed = false;
  let before: AdminState | undefined;
  const look = async (): Promise<string[]> => {
    const [state, list] = await Promise.all([
      read<AdminState>('admin/state'),
      read<AdminSessions>(`admin/sessions?limit=${ROWS}&sort=${SORTS[sort]}`),
    ]);
    const figures = figuresOf(state, before);
    before = state;
    const sessions = isReversed ? { ...list, sessions: list.sessions.toReversed() } : list;
    return topLines(
      { state, figures, sessions, sort: SORTS[sort] ?? 'wire', hasKeys: keys !== undefined },
      terminal,
    );
  };
  if (options.isOnce || !terminal.isInteractive) {
    for (const line of await look()) terminal.write(`${line}\n`);
    return ExitCode.OK;
  }
  const first = await look();
  const woken = new AbortController();
  let wake = new AbortController();
  const release = keys?.((key) => {
    if (key === 'q' || key === '\u0003') woken.abort();
    if (key === 's') sort = (sort + 1) % SORTS.length;
    if (key === 'r') isReversed = !isReversed;
    wake.abort();
  });
  terminal.write(ALTERNATE);
  try {
    for (let lines = first; ; lines = await look()) {
      terminal.write(`${HOME}${lines.map((line) => `${line}${CLEAR_LINE}`).join('\r\n')}${CLEAR_REST}`);
      wake = new AbortController();
      const signal = AbortSignal.any([wake.signal, woken.signal]);
      await pause(options.intervalMs, undefined, { signal }).catch(() => {});
      if (woken.signal.aborted) return ExitCode.OK;
    }
  } finally {
    terminal.write(NORMAL);
    release?.();
  }
}

/** @throws {CommandFailure} if it is not a URL that a server could have. */
function baseOf(url: string): URL {
  const given = /^https?:\/\//i.test(url) ? url : `http://${url}`;
  if (!URL.canParse(given))
    throw new CommandFailure(
      'expected the address of an admin port, such as http://127.0.0.1:9465',
      ExitCode.USAGE,
    );
  return new URL('./', given);
}

async function readJson<T>(url: URL, token: string | undefined): Promise<T> {
  const response = await fetch(url, {
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    // The token is for this server alone.
    redirect: 'error',
    signal: AbortSignal.timeout(ANSWER_MS),
  }).catch((cause: unknown) => {
    throw new CommandFailure(
      `${url.origin} does not answer; is the server running, and is it its admin port?`,
      undefined,
      {
        cause,
      },
    );
  });
  if (response.status === 401)
    throw new CommandFailure(
      token === undefined
        ? 'the admin port requires a token; set PARLANCE_ADMIN_TOKEN'
        : 'the admin port does not accept this token',
    );
  if (!response.ok || response.headers.get('content-type')?.startsWith('application/json') !== true)
    throw new CommandFailure(`${url.origin} is not the admin port of a server: HTTP ${response.status}`);
  return (await response.json()) as T;
}
