import type { ClientSession } from '@parlance/client';
import { createComposer } from './composer.js';
import { createForeignTurn, createTurn, type Turn, type TurnReply } from './conversation.js';
import { byId } from './dom.js';
import { duration } from './format.js';
import { createLog } from './log.js';
import { createMemory } from './memory.js';
import { askModel, followModel, problemOf } from './model.js';
import { createNotice } from './notice.js';
import { createPanel } from './panel.js';
import { createSessionLink, type LinkState } from './session-link.js';
import { createTraffic } from './traffic.js';

/** A chat over one session, with this page's own server or the one in `?server=ws://…`. */

const server = new URLSearchParams(location.search).get('server') ?? ownServer();
const turns: Turn[] = [];
const memory = createMemory(() => turns);
const traffic = createTraffic();
let session: ClientSession | undefined;
let running:
  | { readonly turn: Turn; readonly controller: AbortController; readonly isFollowed: boolean }
  | undefined;
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
byId('new').addEventListener('click', startAgain);
panel.showTraffic(traffic);
for (const turn of memory.turns ?? []) {
  turns.push(turn);
  log.add(turn);
}
showNew();

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
  void goOn(session, state.since === 'first');
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
  showNew();
  void answer(turn, false);
}

/** Only the last turn can be repeated, as later turns depend on earlier ones. */
function askAgain(turn: Turn): void {
  if (session === undefined || running !== undefined || turn !== turns.at(-1)) return;
  if (turn.question === undefined) return;
  Object.assign(turn, createTurn(turn.question));
  log.update(turn, undefined);
  void answer(turn, false);
}

/** Goes on with an answer that was not complete when the page was loaded, or when the last session ended. */
async function goOn(usedSession: ClientSession, isFirst: boolean): Promise<void> {
  if (isFirst && memory.turns === undefined) await joinOtherTab(usedSession);
  const turn = turns.at(-1);
  if (turn?.reply !== undefined && running === undefined && session === usedSession) void answer(turn, true);
}

/** In a tab without a conversation, shows an answer that another tab of this profile waits for. */
async function joinOtherTab(usedSession: ClientSession): Promise<void> {
  // A server that keeps no replies refuses the question.
  const replies = await usedSession.replies().catch(() => []);
  const found = replies.find(({ isOwn, state }) => isOwn && state === 'running');
  if (found === undefined || turns.length > 0) return;
  const turn = createForeignTurn(found.id);
  turns.push(turn);
  log.add(turn);
  showNew();
}

function stop(): void {
  if (running === undefined) return;
  const { turn, controller, isFollowed } = running;
  turn.state = 'stopped';
  controller.abort();
  // The abort of a request stops the model, the abort of following does not.
  if (isFollowed && turn.reply !== undefined) void stopAtServer(turn.reply);
}

async function stopAtServer({ name, position }: TurnReply): Promise<void> {
  try {
    await session?.follow(name, { after: position }).stop();
  } catch (error) {
    const problem = problemOf(error);
    if (problem === undefined) throw error;
    // It may have ended in the meantime.
    if (problem.code !== 'unknown_reply') log.remark(`The server did not stop the answer: ${problem.text}`);
  }
}

/** Begins a new chat. */
function startAgain(): void {
  stop();
  turns.length = 0;
  log.clear();
  memory.save();
  showNew();
  byId('question').focus();
}

function showNew(): void {
  byId('new').hidden = turns.length === 0;
}

/**
 * Shows the answer to `turn`, the last one, as it arrives.
 *
 * @param isFollowed whether it is asked for already; if not, the whole conversation is sent.
 */
async function answer(turn: Turn, isFollowed: boolean): Promise<void> {
  if (session === undefined) return;
  const usedSession = session;
  const { id } = usedSession;
  const meter = traffic.begin(isFollowed);
  const controller = new AbortController();
  const show = () => {
    log.update(turn, meter.read());
    panel.showTraffic(traffic);
  };
  running = { turn, controller, isFollowed };
  composer.setAnswering(true);
  memory.save();
  try {
    const { signal } = controller;
    const texts =
      isFollowed && turn.reply !== undefined
        ? followModel(usedSession, turn.reply, signal, meter.http)
        : askModel(usedSession, turns, signal, meter.http);
    for await (const text of texts) {
      meter.received();
      if (text === '') continue;
      turn.answer += text;
      if (!isStopped(turn)) turn.state = 'streaming';
      memory.saveSoon();
      show();
    }
    // Only `stop` ends the loop early without an error.
    if (!isStopped(turn)) turn.state = 'done';
    turn.reply = undefined;
  } catch (error) {
    const problem = problemOf(error);
    if (problem === undefined) throw error;
    const isLost = LOSSES.includes(problem.code) || isOver(usedSession);
    // The next session goes on with it.
    if (!isLost || isStopped(turn)) turn.reply = undefined;
    if (isStopped(turn)) return;
    if (problem.code === 'cancelled') {
      turn.state = 'stopped';
      return;
    }
    const isGone = isFollowed && (problem.code === 'unknown_reply' || problem.code === 'unsupported');
    turn.state = isLost || isGone ? 'interrupted' : 'failed';
    if (turn.state === 'failed') turn.problem = problem.text;
  } finally {
    running = undefined;
    meter.finish();
    memory.save();
    show();
    composer.setAnswering(false);
    // The next session may be there before the loss of the last one is known here.
    if (session?.state === 'established' && session.id !== id) void goOn(session, false);
  }
}

/** Codes of a session that has ended. */
const LOSSES: readonly (string | undefined)[] = ['session_lost', 'session_closed', 'draining'];

function isStopped(turn: Turn): boolean {
  return turn.state === 'stopped';
}

function isOver({ state }: ClientSession): boolean {
  return state === 'closing' || state === 'closed';
}
