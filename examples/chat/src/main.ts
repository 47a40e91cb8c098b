import type { ClientSession } from '@parlance/client';
import { createComposer } from './composer.js';
import { createTurn, type Turn } from './conversation.js';
import { byId } from './dom.js';
import { duration } from './format.js';
import { createLog } from './log.js';
import { askModel, problemOf } from './model.js';
import { createNotice } from './notice.js';
import { createPanel } from './panel.js';
import { createSessionLink, type LinkState } from './session-link.js';
import { createTraffic } from './traffic.js';

/** A chat over one session, with this page's own server or the one in `?server=ws://…`. */

const server = new URLSearchParams(location.search).get('server') ?? ownServer();
const turns: Turn[] = [];
const traffic = createTraffic();
let session: ClientSession | undefined;
let running: { readonly turn: Turn; readonly controller: AbortController } | undefined;
/** How often the present session was resumed, and when its connection was lost. */
let resumed = 0;
let lostAt = 0;

const panel = createPanel();
const log = createLog(askAgain);
const composer = createComposer({ onSend: ask, onStop: stop });
const notice = createNotice(server, () => link.tryNow());
const link = createSessionLink(server, handleLinkState);
// The network is back, so there is no need to wait for the countdown.
window.addEventListener('online', () => link.tryNow());
panel.showTraffic(traffic);

function ownServer(): string {
  return new URL('/session', location.href.replace(/^http/, 'ws')).href;
}

function handleLinkState(state: LinkState): void {
  session = 'session' in state ? state.session : undefined;
  document.body.dataset['state'] = state.name;
  byId('status').textContent = statusOf(state);
  notice.show(state);
  // Messages sent while the session is suspended go out when it resumes.
  composer.setConnected(state.name === 'connected' || state.name === 'suspended');
  if (state.name === 'suspended') lostAt = performance.now();
  if (state.name !== 'connected' || session === undefined) return;
  resumed = state.since === 'resumed' ? resumed + 1 : 0;
  traffic.follow(session);
  panel.showSession(session, server, resumed);
  panel.showTraffic(traffic);
  if (state.since === 'resumed') {
    log.remark(`Connected again after ${duration(performance.now() - lostAt)}. Nothing is missing.`);
  }
  if (state.since === 'new') {
    log.remark(
      turns.length === 0
        ? 'Connected again, in a new session.'
        : 'Connected again, in a new session. The next message sends the whole conversation again.',
    );
  }
}

function statusOf(state: LinkState): string {
  switch (state.name) {
    case 'connecting':
      return 'Connecting…';
    case 'connected':
      return state.since === 'first' ? 'Connected' : 'Reconnected';
    case 'suspended':
      return 'Suspended';
    case 'moving':
      return 'Moving to a new session…';
    case 'refused':
      return 'Refused';
    case 'lost':
      return state.hadSession ? 'Connection lost' : 'No server';
  }
}

function ask(question: string): void {
  const turn = createTurn(question);
  turns.push(turn);
  log.add(turn);
  void answer(turn);
}

/** Only the last turn can be repeated, as later turns depend on earlier ones. */
function askAgain(turn: Turn): void {
  if (session === undefined || running !== undefined || turn !== turns.at(-1)) return;
  Object.assign(turn, createTurn(turn.question));
  log.update(turn, undefined);
  void answer(turn);
}

function stop(): void {
  if (running === undefined) return;
  running.turn.state = 'stopped';
  running.controller.abort();
}

/** Sends the whole conversation, whose last turn is `turn`, and shows the answer as it arrives. */
async function answer(turn: Turn): Promise<void> {
  if (session === undefined) return;
  const usedSession = session;
  const meter = traffic.begin();
  const controller = new AbortController();
  const show = () => {
    log.update(turn, meter.read());
    panel.showTraffic(traffic);
  };
  running = { turn, controller };
  composer.setAnswering(true);
  try {
    for await (const text of askModel(usedSession, turns, controller.signal, meter.http)) {
      meter.received();
      if (text === '') continue;
      turn.answer += text;
      if (!isStopped(turn)) turn.state = 'streaming';
      show();
    }
    // Only `stop` ends the loop early without an error.
    if (!isStopped(turn)) turn.state = 'done';
  } catch (error) {
    const problem = problemOf(error);
    if (problem === undefined) throw error;
    if (isStopped(turn)) return;
    const isLost = problem.code === 'session_lost' || isOver(usedSession);
    turn.state = isLost ? 'interrupted' : 'failed';
    if (!isLost) turn.problem = problem.text;
  } finally {
    running = undefined;
    meter.finish();
    show();
    composer.setAnswering(false);
  }
}

function isStopped(turn: Turn): boolean {
  return turn.state === 'stopped';
}

function isOver({ state }: ClientSession): boolean {
  return state === 'closing' || state === 'closed';
}
