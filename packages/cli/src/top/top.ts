import { setTimeout as pause } from 'node:timers/promises';
import {
  type AdminSessions,
  type AdminState,
  figuresOf,
  healthOf,
  type Point,
  pointOf,
} from '@parlance/server/admin';
import type { Keys } from '../base/command.js';
import { CommandFailure, ExitCode } from '../base/failure.js';
import type { Terminal } from '../base/terminal.js';
import { type TopLook, topLines } from './top-view.js';

export interface TopOptions {
  readonly token: string | undefined;
  readonly intervalMs: number;
  /** Print one look and exit. */
  readonly isOnce: boolean;
  /** Print a JSON object for each look. */
  readonly isJson: boolean;
  /** A part of an ID, a principal, a label or an address; empty for all sessions. */
  readonly find: string;
  /** One of {@link SHOWS}, or the name of a label. */
  readonly show: string;
}

/** How rows can be sorted, in the order of the key `s`. */
export const SORTS = ['wire', 'streams', 'queued', 'age', 'roundTrip', 'principal'] as const;
/** Which rows can be shown, in the order of the key `f`. */
export const SHOWS = ['', 'suspended', 'waits', 'silent'] as const;
const ROWS = 200;
/** How long the server may take to answer, in milliseconds. */
const ANSWER_MS = 5_000;
/** The points that are kept to judge the last minute by. */
const PAST_MS = 90_000;
const ALTERNATE = '\u001b[?1049h\u001b[?25l';
const NORMAL = '\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const CLEAR_REST = '\u001b[J';
const CLEAR_LINE = '\u001b[K';

/** The server does not answer: it may be back in a moment. */
class Away extends CommandFailure {}

/** `parlance top`: a server's figures and sessions, like those of the dashboard. It stays while the server is away. */
export async function top(
  url: string,
  options: TopOptions,
  terminal: Terminal,
  keys: Keys | undefined,
): Promise<ExitCode> {
  const looks = new Looks(baseOf(url), options, keys !== undefined);
  const isStaying = !options.isOnce && (terminal.isInteractive || options.isJson);
  const print = () => {
    if (options.isJson) terminal.write(`${JSON.stringify(looks.json())}\n`);
    else for (const line of looks.lines(terminal)) terminal.write(`${line}\n`);
  };
  // A server that has never answered is a mistake in the address.
  await looks.look();
  if (!isStaying) {
    print();
    return ExitCode.OK;
  }
  const left = new AbortController();
  let wake = new AbortController();
  const release = keys?.((key) => {
    if (key === 'q' || key === '\u0003') left.abort();
    looks.handleKey(key);
    wake.abort();
  });
  const isScreen = !options.isJson;
  if (isScreen) terminal.write(ALTERNATE);
  try {
    for (;;) {
      if (isScreen) terminal.write(screenOf(looks.lines(terminal)));
      else print();
      wake = new AbortController();
      const signal = AbortSignal.any([wake.signal, left.signal]);
      await pause(options.intervalMs, undefined, { signal }).catch(() => {});
      if (left.signal.aborted) return ExitCode.OK;
      await looks.again();
    }
  } finally {
    if (isScreen) terminal.write(NORMAL);
    release?.();
  }
}

const screenOf = (lines: readonly string[]) =>
  `${HOME}${lines.map((line) => `${line}${CLEAR_LINE}`).join('\r\n')}${CLEAR_REST}`;

/** The reports of the server, and how rows are sorted and chosen. */
class Looks {
  readonly #base: URL;
  readonly #options: TopOptions;
  readonly #hasKeys: boolean;
  #sort = 0;
  #show: string;
  #isReversed = false;
  #points: Point[] = [];
  #last: Omit<TopLook, 'sort' | 'show' | 'find' | 'hasKeys' | 'awayMs'> | undefined;
  #before: AdminState | undefined;
  #heardAt = 0;
  #isAway = false;

  constructor(base: URL, options: TopOptions, hasKeys: boolean) {
    this.#base = base;
    this.#options = options;
    this.#show = options.show;
    this.#hasKeys = hasKeys;
  }

  handleKey(key: string): void {
    if (key === 's') this.#sort = (this.#sort + 1) % SORTS.length;
    if (key === 'r') this.#isReversed = !this.#isReversed;
    if (key !== 'f') return;
    const at = SHOWS.indexOf(this.#show as (typeof SHOWS)[number]);
    this.#show = SHOWS[(at + 1) % SHOWS.length] ?? '';
  }

  /** @throws {CommandFailure} if there is no answer, or a wrong one. */
  async look(): Promise<void> {
    const read = <T>(path: string) => readJson<T>(new URL(path, this.#base), this.#options.token);
    const query = new URLSearchParams({
      limit: String(ROWS),
      sort: this.#sortName,
      show: this.#show,
      find: this.#options.find,
    });
    const [state, sessions] = await Promise.all([
      read<AdminState>('admin/state'),
      read<AdminSessions>(`admin/sessions?${query}`),
    ]);
    const figures = figuresOf(state, this.#before);
    this.#last = { state, figures, health: healthOf(state, this.#points), sessions };
    this.#before = state;
    this.#points = [...this.#points.filter(({ at }) => at > state.now - PAST_MS), pointOf(state)];
    this.#heardAt = performance.now();
    this.#isAway = false;
  }

  /** As {@link look}, but a server that does not answer is away. */
  async again(): Promise<void> {
    try {
      await this.look();
    } catch (error) {
      if (!(error instanceof Away)) throw error;
      this.#isAway = true;
    }
  }

  lines(terminal: Terminal): string[] {
    const { sessions, ...last } = this.#known();
    const rows = this.#isReversed ? { ...sessions, sessions: sessions.sessions.toReversed() } : sessions;
    const choice = { sort: this.#sortName, show: this.#show, find: this.#options.find };
    return topLines(
      { ...last, sessions: rows, ...choice, hasKeys: this.#hasKeys, awayMs: this.#awayMs },
      terminal,
    );
  }

  /** One object for a program; while the server is away, only for how long. */
  json(): object {
    const awayMs = this.#awayMs;
    if (awayMs !== undefined) return { at: Date.now(), awayMs: Math.round(awayMs) };
    const { state, figures, health, sessions } = this.#known();
    const { version, node, startedAt, now, draining, engine } = state;
    return { at: now, version, node, startedAt, draining, engine, health, figures, ...sessions };
  }

  get #sortName(): string {
    return SORTS[this.#sort] ?? 'wire';
  }

  get #awayMs(): number | undefined {
    return this.#isAway ? performance.now() - this.#heardAt : undefined;
  }

  #known() {
    if (this.#last === undefined) throw new CommandFailure('the server has said nothing yet');
    return this.#last;
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
    throw away(url, cause);
  });
  if (response.status === 401)
    throw new CommandFailure(
      token === undefined
        ? 'the admin port requires a token; set PARLANCE_ADMIN_TOKEN'
        : 'the admin port does not accept this token',
    );
  if (!response.ok || response.headers.get('content-type')?.startsWith('application/json') !== true)
    throw new CommandFailure(`${url.origin} is not the admin port of a server: HTTP ${response.status}`);
  return (await response.json().catch((cause: unknown) => {
    throw away(url, cause);
  })) as T;
}

const away = ({ origin }: URL, cause: unknown) =>
  new Away(`${origin} does not answer; is the server running, and is it its admin port?`, undefined, {
    cause,
  });
