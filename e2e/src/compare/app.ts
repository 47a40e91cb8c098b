import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from '../../../packages/server/src/engine/testing/free-port.js';
import { type RedisServer, startRedis } from '../../../packages/server/src/engine/testing/redis-server.js';
import { type CuttingProxy, createCuttingProxy } from '../kit/cutting-proxy.js';
import { clientOf, type Rival } from './rivals.js';

/** An app of one rival that runs: its server, what that needs, the proxy before them, and a page. */

/** Against hanging only. */
const START_MS = 60_000;
/** How long nothing has to come before an answer that has not ended is taken to have been given up. */
const QUIET_MS = 60_000;
/** How long the model has to be stopped, or to be asked again, once a page has seen the end. */
const AFTER_END_MS = 3_000;
/** From the death of a server to the start of the next one. */
const DOWN_MS = 500;

type News =
  | { readonly word: string }
  | { readonly clear: true }
  | { readonly ready: true }
  | { readonly nothing: true }
  | { readonly outcome: 'whole' | 'error'; readonly text?: string };

/** How an answer ended: `nothing` if the page does not look for one, `waits` if nothing comes any more. */
type End = 'whole' | 'error' | 'nothing' | 'waits';

/** What a page has shown, and how its answer ended. */
interface Screen {
  readonly words: string[];
  outcome: End | undefined;
  text: string | undefined;
  news: number;
}

export interface Outcome {
  /** Words that the page shows, in order. */
  readonly words: readonly string[];
  readonly outcome: End;
  /** Of an error. */
  readonly text: string | undefined;
  /** How often the model was asked, and how often it was stopped. */
  readonly asked: number;
  readonly stopped: number;
}

export class App {
  readonly #folder: string;
  readonly #rival: Rival;
  readonly #centrifugo: string | undefined;
  readonly #port: number;
  readonly #env: Record<string, string> = {};
  readonly #proxies: CuttingProxy[] = [];
  #redis: RedisServer | undefined;
  #server: ChildProcess | undefined;
  #broker: ChildProcess | undefined;
  #brokerPort = 0;
  #page: ChildProcess | undefined;
  #screen: Screen = newScreen();
  readonly #log: string;

  private constructor(apps: string, rival: Rival, centrifugo: string | undefined, port: number) {
    this.#folder = join(apps, rival.folder);
    this.#rival = rival;
    this.#centrifugo = centrifugo;
    this.#port = port;
    const data = mkdtempSync(join(apps, `${rival.folder}-`));
    this.#log = join(data, 'log');
    for (const name of ['LEDGER', 'STORAGE', 'DATABASE']) this.#env[name] = join(data, name.toLowerCase());
  }

  /** @param apps the folder of the apps, with the packages in it or above. */
  static async start(apps: string, rival: Rival, centrifugo: string | undefined): Promise<App> {
    const app = new App(apps, rival, centrifugo, await freePort());
    if (rival.needs !== undefined) {
      app.#redis = await startRedis();
      app.#env['REDIS_URL'] = app.#redis.url;
    }
    if (rival.needs === 'centrifugo') {
      app.#brokerPort = await freePort();
      await app.startBroker();
      app.#proxies.push(await createCuttingProxy(app.#brokerPort));
    }
    await app.startServer();
    app.#proxies.push(await createCuttingProxy(app.#port));
    return app;
  }

  async startBroker(): Promise<void> {
    const env = {
      CENTRIFUGO_ENGINE_REDIS_ADDRESS: (this.#redis as RedisServer).url,
      CENTRIFUGO_HTTP_SERVER_PORT: `${this.#brokerPort}`,
    };
    const config = join(this.#folder, 'config.json');
    this.#broker = spawn(this.#centrifugo as string, ['--config', config], this.#options(env));
    this.#keep(this.#broker);
    await this.#listens(this.#brokerPort);
  }

  async startServer(): Promise<void> {
    const env = { PORT: `${this.#port}`, CENTRIFUGO: `http://127.0.0.1:${this.#brokerPort}` };
    this.#server = spawn(process.execPath, [join(this.#folder, 'server.mjs')], this.#options(env));
    this.#keep(this.#server);
    await this.#listens(this.#port);
  }

  /** Opens a page, which finds the storage of the one before. */
  async openPage(): Promise<void> {
    const file = clientOf(this.#rival);
    const [last, broker] = [this.#proxies.at(-1), this.#proxies[0]];
    const page = fork(join(this.#folder, '../page.mjs'), [join(this.#folder, file)], {
      ...this.#options({
        SERVER: `http://127.0.0.1:${last?.port}`,
        CENTRIFUGO: `ws://127.0.0.1:${broker?.port}/connection/websocket`,
      }),
      execArgv: [],
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    this.#keep(page);
    this.#page = page;
    const screen = newScreen();
    this.#screen = screen;
    const ready = new Promise<void>((resolve, reject) => {
      page.once('exit', () => reject(this.#failure('the page has ended')));
      page.on('message', (news: News) => {
        screen.news++;
        if ('word' in news) screen.words.push(news.word);
        if ('clear' in news) screen.words.length = 0;
        if ('ready' in news) resolve();
        if ('nothing' in news) screen.outcome = 'nothing';
        if ('outcome' in news) Object.assign(screen, news);
      });
    });
    await within(ready, START_MS, () => this.#failure('no page is ready'));
  }

  ask(question: string): void {
    this.#screen.outcome = undefined;
    this.#page?.send({ ask: question });
  }

  stop(): void {
    this.#page?.send({ stop: true });
  }

  /** Until the page shows so many words. */
  async shows(count: number): Promise<void> {
    const { words } = this.#screen;
    const until = async () => {
      while (words.length < count && this.#screen.outcome === undefined) await pause(1);
      if (words.length < count) throw this.#failure(`the page shows ${words.length} words`);
    };
    await within(until(), START_MS, () => this.#failure(`the page shows ${words.length} words`));
  }

  cut(): void {
    for (const proxy of this.#proxies) proxy.cut();
  }

  /** Another process takes the place of the page. */
  async reload(): Promise<void> {
    this.#page?.removeAllListeners('exit');
    await kill(this.#page);
    await this.openPage();
  }

  /** `kill -9`, and the next one on the same port. */
  async killServer(): Promise<void> {
    await kill(this.#server);
    await pause(DOWN_MS);
    await this.startServer();
  }

  async killBroker(): Promise<void> {
    await kill(this.#broker);
    await pause(DOWN_MS);
    await this.startBroker();
  }

  /** Waits for the end of the answer, or until nothing has come for long, and for the model to learn of it. */
  async end(afterMs = AFTER_END_MS): Promise<Outcome> {
    const screen = this.#screen;
    let seen = -1;
    let since = performance.now();
    while (screen.outcome === undefined && performance.now() - since < QUIET_MS) {
      if (seen !== screen.news) since = performance.now();
      seen = screen.news;
      await pause(20);
    }
    const outcome = screen.outcome ?? 'waits';
    await pause(afterMs);
    const ledger = existsSync(this.#env['LEDGER'] ?? '')
      ? readFileSync(this.#env['LEDGER'] ?? '', 'utf8')
      : '';
    const count = (what: string) => ledger.split('\n').filter((line) => line === what).length;
    const { words, text } = screen;
    return { words: [...words], outcome, text, asked: count('asked'), stopped: count('stopped') };
  }

  /** Of all connections, in both directions. */
  get bytes(): number {
    return this.#proxies.reduce((sum, { bytes }) => sum + bytes.fromClient + bytes.fromServer, 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#page?.removeAllListeners('exit');
    for (const child of [this.#page, this.#server, this.#broker]) await kill(child);
    for (const each of [...this.#proxies, this.#redis]) await each?.[Symbol.asyncDispose]();
  }

  #options(env: Readonly<Record<string, string>>) {
    const { NODE_OPTIONS: _, ...inherited } = process.env;
    return { cwd: this.#folder, env: { ...inherited, ...this.#env, ...env } };
  }

  #keep(child: ChildProcess): void {
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => appendFileSync(this.#log, chunk));
    }
    children.add(child);
    child.once('exit', () => children.delete(child));
  }

  async #listens(port: number): Promise<void> {
    const until = async () => {
      for (;;) {
        const socket = connect(port, '127.0.0.1');
        try {
          await once(socket, 'connect');
          return;
        } catch {
          await pause(10);
        } finally {
          socket.destroy();
        }
      }
    };
    await within(until(), START_MS, () => this.#failure(`nothing listens at ${port}`));
  }

  #failure(what: string): Error {
    const log = existsSync(this.#log) ? readFileSync(this.#log, 'utf8').slice(-3_000) : '';
    return new Error(`${this.#rival.name}: ${what}; ${this.#screen.text ?? 'no error'}\n${log}`);
  }
}

/** They end with this process, however it ends. */
const children = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of children) child.kill('SIGKILL');
});

const newScreen = (): Screen => ({ words: [], outcome: undefined, text: undefined, news: 0 });

async function within(task: Promise<void>, ms: number, failure: () => Error): Promise<void> {
  const timer = new AbortController();
  const late = pause(ms, undefined, { signal: timer.signal }).then(() => {
    throw failure();
  });
  late.catch(() => {});
  await Promise.race([task, late]).finally(() => timer.abort());
}

async function kill(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}
