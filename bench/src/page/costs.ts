import type { Browser } from 'playwright-core';
import { type Child, startChild } from '../../../scripts/child-process.js';
import { chromiumMissing, launchChromium, WHOLE_CHROMIUM } from '../../../scripts/chromium.js';
import { compare, type Row } from '../row.js';
import { median } from '../statistics.js';
import { type Bundle, bundlePage } from './bundle.js';
import { type Contestant, type Far, OURS, SOCKET_IO, WEB_SOCKET } from './contestants.js';
import { LONG_TASK_MS } from './long-tasks.js';
import type { PageServerCommands } from './server.js';
import { type StaticFiles, serveCompressed } from './static-files.js';
import { measureDelays } from './throttling.js';
import { type Conditions, type Visit, visit } from './visit.js';

/**
 * The bytes that Chromium transfers, and the time that it takes: each page is visited several times, in turns with the
 * others.
 */

type Visited = Contestant & { readonly far: Far };

const PAGES: readonly Visited[] = [...OURS, SOCKET_IO, WEB_SOCKET];
/** Long enough for what a page loads while it is idle. */
const STAY_MS = 3_000;

interface Profile extends Conditions {
  readonly name: string;
  /** Latency that is added to the messages of a WebSocket. @default {@link Conditions.latencyMs} */
  readonly messageLatencyMs?: number;
}

const FULL_SPEED: Profile = { name: 'full speed' };
const NETWORKS: readonly Profile[] = [
  { name: '10 Mbit/s, 40 ms', bytesPerSecond: 1_250_000, latencyMs: 40 },
  { name: '1.6 Mbit/s, 150 ms', bytesPerSecond: 200_000, latencyMs: 150 },
  // Chromium alone: it delays requests and handshakes, and no message.
  { name: '1.6 Mbit/s, Chromium', bytesPerSecond: 200_000, latencyMs: 150, messageLatencyMs: 0 },
];
const SLOW_CPU: Profile = { name: 'CPU 1/4', cpuSlowdown: 4 };

export async function* costs(quick: boolean): AsyncGenerator<Row> {
  const missing = chromiumMissing();
  if (missing !== undefined) {
    console.error(`skipped Chromium: ${missing}`);
    return;
  }
  const runs = quick ? 2 : 5;
  await using site = await openSite();
  await using browser = await launchChromium(WHOLE_CHROMIUM);
  // The first visits of a browser are several times slower.
  await site.visitAll(browser, FULL_SPEED, 1);
  const atFullSpeed = await site.visitAll(browser, FULL_SPEED, runs, STAY_MS);
  yield* transfers(atFullSpeed);
  yield* times(FULL_SPEED, atFullSpeed);
  yield* tasks(FULL_SPEED, atFullSpeed);
  yield* heaps(atFullSpeed);
  for (const profile of NETWORKS) yield* times(profile, await site.visitAll(browser, profile, runs));
  const onSlowCpu = await site.visitAll(browser, SLOW_CPU, runs, STAY_MS);
  yield* times(SLOW_CPU, onSlowCpu);
  yield* tasks(SLOW_CPU, onSlowCpu);
  yield* webSockets(browser, site);
}

type Visits = ReadonlyMap<string, readonly Visit[]>;

function middle(visits: Visits, page: string, figureOf: (visit: Visit) => number): number {
  return median((visits.get(page) ?? []).map(figureOf));
}

/** Compares a figure of our pages with that of other pages. */
function* against(
  visits: Visits,
  others: readonly Contestant[],
  what: string,
  unit: string,
  figureOf: (visit: Visit) => number,
): Generator<Row> {
  for (const { page, title } of OURS) {
    for (const other of others) {
      const value = middle(visits, page, figureOf);
      const baseline = { name: other.title, value: middle(visits, other.page, figureOf) };
      yield compare(`${title}: ${what}`, unit, 'lower', value, baseline);
    }
  }
}

function* transfers(visits: Visits): Generator<Row> {
  const stay = `${STAY_MS / 1000} s later`;
  yield* against(visits, [SOCKET_IO], 'loaded at first message', 'kB', ({ toShown }) => toShown.bytes / 1000);
  yield* against(visits, [SOCKET_IO], 'requests by then', 'files', ({ toShown }) => toShown.requests);
  yield* against(visits, [SOCKET_IO], `loaded ${stay}`, 'kB', ({ total }) => total.bytes / 1000);
  yield* against(visits, [SOCKET_IO], `requests ${stay}`, 'files', ({ total }) => total.requests);
}

function* times({ name }: Profile, visits: Visits): Generator<Row> {
  yield* against(visits, [SOCKET_IO, WEB_SOCKET], name, 'ms', ({ shownMs }) => shownMs);
}

function* tasks({ name }: Profile, visits: Visits): Generator<Row> {
  const limit = { name: 'a long task', value: LONG_TASK_MS };
  for (const { page, title } of PAGES) {
    const toShown = middle(visits, page, ({ longestTaskMs }) => longestTaskMs.toShown);
    const later = middle(visits, page, ({ longestTaskMs }) => longestTaskMs.later);
    yield compare(`${title}: longest task, ${name}`, 'ms', 'lower', toShown, limit);
    if (later > 0) yield compare(`${title}: longest later, ${name}`, 'ms', 'lower', later, limit);
  }
}

function* heaps(visits: Visits): Generator<Row> {
  const mega = 1_000_000;
  yield* against(visits, [SOCKET_IO, WEB_SOCKET], 'objects', 'MB', ({ heap }) => heap.objects / mega);
  yield* against(visits, [SOCKET_IO], 'buffers and WebAssembly', 'MB', ({ heap }) => heap.buffers / mega);
}

/** Which delays of a slow network Chromium adds to WebSockets by itself, and those that the pages had. */
async function* webSockets(browser: Browser, site: Site): AsyncGenerator<Row> {
  const page = site.originOf(WEB_SOCKET.page);
  const direct = await site.urls(0);
  const fast = await measureDelays(browser, page, direct.ws, FULL_SPEED);
  for (const profile of NETWORKS) {
    const alone = await measureDelays(browser, page, direct.ws, profile);
    const { ws } = await site.urls(profile.messageLatencyMs ?? profile.latencyMs ?? 0);
    const late = await measureDelays(browser, page, ws, profile);
    const row = (name: string, value: number, baseline: number) =>
      compare(`${name}, ${profile.name}`, 'ms', 'lower', value, { name: FULL_SPEED.name, value: baseline });
    yield row('HTTP request', alone.requestMs, fast.requestMs);
    yield row('WebSocket handshake', alone.handshakeMs, fast.handshakeMs);
    yield row('WebSocket echo of 100 kB', alone.messageMs, fast.messageMs);
    yield row('WebSocket echo of 1 B', alone.roundTripMs, fast.roundTripMs);
    yield row('… as the pages had it', late.roundTripMs, fast.roundTripMs);
  }
}

type Urls = Readonly<Record<Far, string>>;

interface Site extends AsyncDisposable {
  originOf(page: string): string;
  urls(latencyMs: number): Promise<Urls>;
  visitAll(browser: Browser, profile: Profile, runs: number, stayMs?: number): Promise<Visits>;
}

/** Every page on a static server of its own, and their servers in another process. */
async function openSite(): Promise<Site> {
  const far: Child<PageServerCommands> = startChild(new URL('./server.ts', import.meta.url), []);
  const bundles: Bundle[] = [];
  const hosts = new Map<string, StaticFiles>();
  for (const { page } of PAGES) {
    const bundle = await bundlePage(page);
    bundles.push(bundle);
    hosts.set(page, await serveCompressed(bundle.folder));
  }
  const originOf = (page: string) => hosts.get(page)?.origin ?? '';
  const known = new Map<number, Promise<Urls>>();
  const urls = (latencyMs: number) => {
    const found = known.get(latencyMs) ?? far.call('urls', latencyMs);
    known.set(latencyMs, found);
    return found;
  };
  return {
    originOf,
    urls,
    async visitAll(browser, profile, runs, stayMs = 0) {
      const visits = new Map<string, Visit[]>(PAGES.map(({ page }) => [page, []]));
      const servers = await urls(profile.messageLatencyMs ?? profile.latencyMs ?? 0);
      for (let run = 0; run < runs; run++) {
        for (const { page, far: kind } of PAGES) {
          const url = `${originOf(page)}/?server=${encodeURIComponent(servers[kind])}`;
          visits.get(page)?.push(await visit(browser, url, { ...profile, stayMs }));
        }
      }
      return visits;
    },
    async [Symbol.asyncDispose]() {
      far.stop();
      for (const each of [...hosts.values(), ...bundles]) await each[Symbol.asyncDispose]();
    },
  };
}
