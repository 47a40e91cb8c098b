import type { ClientSession } from '@parlance/client';
import { byId } from '../shared/dom.js';
import { count, duration } from '../shared/format.js';
import { createPainter } from '../shared/paint.js';
import { loadMarkdown } from './answer-text.js';
import { createBreakCard } from './break.js';
import { createComposer } from './composer.js';
import { createForeignTurn, createTurn, isNews, type Turn, type TurnReply, take } from './conversation.js';
import { isWhole, stageOf } from './endings.js';
import { createInterruptions } from './interruptions.js';
import { createLog } from './log.js';
import { createMemory } from './memory.js';
import { createModelChoice } from './model-choice.js';
import { createNotice } from './notice.js';
import { createPanel } from './panel.js';
import { createSessionLink, type LinkState, PING_MS } from './session-link.js';
import { createSilence, type Hearing } from './silence.js';
import { arrive } from './tab.js';
import { createTraffic } from './traffic.js';
import { createRecording } from './wire/recording.js';

/** A chat over one session, with this page's own server or the one in `?server=ws://…`. */

const server = new URLSearchParams(location.search).get('server') ?? ownServer();
const turns: Turn[] = [];
/** The names that requests of this page have on the wire. */
const replyNames = new WeakMap<Turn, string>();
const { isCopy, awayMs } = await arrive();
const memory = createMemory(() => turns);
const traffic = createTraffic();
let session: ClientSession | undefined;
let running:
  | { readonly turn: Turn; readonly controller: AbortController; readonly isFollowed: boolean }
  | undefined;
/** How often the present session was resumed. */
let resumed = 0;
/** The question that is being edited. */
let edited: Turn | undefined;

const panel = createPanel();
const log = createLog({ onAskAgain: askAgain, onEdit: edit, onShowWire: showWire });
const recording = createRecording(
  () => turns.at(-1)?.question ?? 'a new chat',
  (direction, length) => {
    traffic.frame(direction, length);
    if (direction === 'received') silence.hear();
  },
);
const onEditLast = () => {
  const last = turns.at(-1);
  if (last !== undefined) edit(last);
};
const onWrite = () => void loadModel().catch(() => {});
const composer = createComposer({ onSend: send, onStop: stop, onEditLast, onWrite }, isCopy);
const interruptions = createInterruptions((turn) => log.mark(turn));
const bytesReceived = () => session?.stats().received.wireBytes ?? 0;
const silence = createSilence(PING_MS, bytesReceived, handleHearing);
const breakCard = createBreakCard({ onFreeze: () => interruptions.freeze() });
const choice = createModelChoice(async () =>
  session === undefined ? [] : (await loadModel()).listModels(session.fetch),
);
const notice = createNotice(server, {
  onRetry: () => link.tryNow(true),
  isAnswering: () => running !== undefined,
});
const link = createSessionLink(breakCard.address(server), recording.WebSocket, handleLinkState);
// The network is back, so there is no need to wait for the countdown.
window.addEventListener('online', () => link.tryNow());
byId('new').addEventListener('click', startAgain);
if (memory.omitted.turns > 0)
  log.remark(
    `${count(memory.omitted.turns, 'earlier turn')} did not fit into the store of this tab · the model is not given ${memory.omitted.turns === 1 ? 'it' : 'them'} either`,
  );
for (const turn of memory.turns ?? []) {
  turns.push(turn);
  log.add(turn);
}
/** The answer that is read in the tab of which this one is a copy. */
const copied = isCopy ? turns.at(-1) : undefined;
if (copied !== undefined)
  log.remark('This tab is a copy of another one · each of them continues the conversation by itself');
composer.settle(stageOf(turns.at(-1)));
showTraffic();
showNew();

function ownServer(): string {
  return new URL('/session', location.href.replace(/^http/, 'ws')).href;
}

/** Loads what asks a model. The page shows itself and connects before that. */
function loadModel() {
  void loadMarkdown();
  return import('./model.js');
}

function handleLinkState(state: LinkState): void {
  session = 'session' in state ? state.session : undefined;
  document.body.dataset['state'] = state.name;
  const { hearing } = silence;
  silence.setConnected(state.name === 'connected');
  showStatus(state);
  notice.show(state);
  // Messages sent while the session is suspended go out when it resumes.
  composer.setConnected(state.name === 'connected' || state.name === 'suspended');
  if (state.name === 'suspended')
    interruptions.lose(running?.turn, hearing.name === 'unknown' ? hearing.ms : 0);
  if (state.name !== 'connected' || session === undefined) return;
  resumed = state.since === 'resumed' ? resumed + 1 : 0;
  traffic.follow(session);
  recording.follow(session);
  panel.showSession(session, server, resumed);
  showTraffic();
  if (state.since === 'resumed') {
    const lostMs = interruptions.resume();
    if (lostMs !== undefined) log.remark(`Connection lost for ${duration(lostMs)} · the session continues`);
  }
  void goOn(session, state.since === 'first');
  if (state.since === 'new') {
    log.remark(
      turns.length === 0
        ? 'Connected again, in a new session'
        : 'Connected again, in a new session · the next question sends the conversation once more',
    );
  }
}

function handleHearing(before: Hearing): void {
  const { hearing } = silence;
  document.body.classList.toggle('silent', hearing.name !== 'live');
  const isBack = before.name === 'unknown' && hearing.name !== 'unknown';
  // After a loss, its own mark says how long that took.
  if (isBack && running !== undefined && link.state.name === 'connected')
    interruptions.hear(running.turn, before.ms);
  showStatus(link.state);
}

function showStatus(state: LinkState): void {
  const { hearing } = silence;
  const isUnknown = state.name === 'connected' && hearing.name === 'unknown';
  byId('status').textContent = statusOf(state, hearing);
  byId('silent-for').textContent = isUnknown ? `for ${duration(hearing.ms)}` : '';
}

function statusOf(state: LinkState, { name }: Hearing): string {
  switch (state.name) {
    case 'connecting':
      return 'Connecting…';
    case 'connected':
      if (name === 'unknown') return 'Silent';
      if (name === 'waiting') return 'Waiting for an answer';
      return `${state.since === 'first' ? 'Connected' : 'Reconnected'}${state.session.transport === 'http' ? ' over HTTP' : ''}`;
    case 'suspended':
      return 'Reconnecting…';
    case 'moving':
      return state.isTold ? 'Server shuts down…' : 'Reconnecting…';
    case 'refused':
      return 'Refused';
    case 'ended':
      return 'Closed';
    case 'lost':
      return state.hadSession ? 'Connection lost' : 'No server';
  }
}

function send(question: string, isEdited: boolean): void {
  if (isEdited && edited !== undefined) {
    for (const turn of turns.splice(Math.max(0, turns.indexOf(edited)))) log.remove(turn);
  }
  edited = undefined;
  const turn = createTurn(question);
  turns.push(turn);
  log.add(turn);
  showNew();
  void answer(turn, false);
}

function edit(turn: Turn): void {
  const isBusy = running !== undefined && !isStopped(running.turn);
  if (isBusy || turn.question === undefined) return;
  edited = turn;
  composer.edit(turn.question);
}

/** Only the last turn can be repeated, as later turns depend on earlier ones. */
function askAgain(turn: Turn): void {
  if (session === undefined || running !== undefined || turn !== turns.at(-1)) return;
  if (turn.question === undefined) return;
  const { traffic: before } = turn;
  Object.assign(turn, createTurn(turn.question), { traffic: before });
  log.update(turn);
  // The button has gone.
  composer.focus();
  void answer(turn, false);
}

/** Shows the frames of an answer that this page has asked for since it was loaded. */
function showWire(turn: Turn): void {
  const name = replyNames.get(turn);
  if (session?.transport === 'http')
    log.remark('This session comes over HTTP. Only frames of WebSockets are kept to be shown.');
  else if (name === undefined)
    log.remark('That answer came before this page was loaded, which has not kept its frames.');
  else recording.show(name);
}

/** Goes on with an answer that was not complete when the page was loaded, or when the last session ended. */
async function goOn(usedSession: ClientSession, isFirst: boolean): Promise<void> {
  if (isFirst && memory.turns === undefined) await joinOtherTab(usedSession);
  const turn = turns.at(-1);
  if (turn?.reply === undefined || running !== undefined || session !== usedSession) return;
  if (isFirst && memory.turns !== undefined && awayMs > 0) interruptions.reload(turn, awayMs);
  void answer(turn, true);
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
    const problem = (await loadModel()).problemOf(error);
    if (problem === undefined) throw error;
    // It may have ended in the meantime.
    if (problem.code !== 'unknown_reply') log.remark(`The server did not stop the answer: ${problem.title}`);
  }
}

/** Begins a new chat. */
function startAgain(): void {
  stop();
  turns.length = 0;
  log.clear();
  memory.forget();
  composer.settle('complete');
  showTraffic();
  showNew();
  composer.focus();
}

function showNew(): void {
  byId('new').hidden = turns.length === 0;
}

function showTraffic(): void {
  const { omitted } = memory;
  const shown = omitted.turns > 0 ? [omitted, ...turns] : turns;
  panel.showTraffic(shown, traffic.overhead(), omitted.turns);
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
  const controller = new AbortController();
  running = { turn, controller, isFollowed };
  silence.begin();
  composer.setAnswering(true);
  memory.save();
  if (turn.reply !== undefined) replyNames.set(turn, turn.reply.name);
  const meter = traffic.begin(turn);
  const show = () => {
    meter.read();
    log.update(turn);
    showTraffic();
  };
  const painter = createPainter(show);
  try {
    const { askModel, followModel } = await loadModel();
    const { signal } = controller;
    const pieces =
      isFollowed && turn.reply !== undefined
        ? followModel(turn.reply, signal, usedSession.fetch, meter.http)
        : askModel(choice.model, turns, signal, usedSession.fetch, meter.http);
    for await (const piece of pieces) {
      meter.received();
      silence.receive();
      const isNew = isNews(piece);
      // A mark comes before the words that it announces.
      if (isNew) interruptions.receive(turn);
      take(turn, piece);
      if (!isNew) continue;
      if (!isStopped(turn)) turn.state = 'streaming';
      memory.saveSoon();
      painter.soon();
    }
    // Only `stop` ends the loop early without an error.
    if (!isStopped(turn)) turn.state = 'done';
    turn.reply = undefined;
  } catch (error) {
    await handleFailure(error, turn, isFollowed, usedSession);
  } finally {
    running = undefined;
    silence.end();
    interruptions.end(turn, isWhole(turn));
    const settled = meter.settle();
    painter.now();
    memory.save();
    void settled.then(() => {
      log.update(turn);
      showTraffic();
      memory.saveSoon();
    });
    composer.setAnswering(false);
    composer.settle(stageOf(turn));
    // The next session may be there before the loss of the last one is known here.
    if (session?.state === 'established' && session.id !== id) void goOn(session, false);
  }
}

async function handleFailure(
  error: unknown,
  turn: Turn,
  isFollowed: boolean,
  usedSession: ClientSession,
): Promise<void> {
  const model = await loadModel().catch(() => undefined);
  if (model === undefined) {
    const title = 'A part of this page could not be loaded. Check your connection, then ask again.';
    Object.assign(turn, {
      state: 'failed',
      problem: { title, detail: '', code: undefined, retryAt: undefined },
    });
    return;
  }
  const problem = model.problemOf(error);
  if (problem === undefined) throw error;
  const isLost = LOSSES.includes(problem.code) || isOver(usedSession);
  // The next session goes on with it.
  if (!isLost || isStopped(turn)) turn.reply = undefined;
  if (isStopped(turn)) return;
  if (problem.code === 'cancelled') {
    turn.state = 'stopped';
    turn.problem = { ...problem, title: 'This answer was stopped, in another tab or by the server.' };
    return;
  }
  const isGone = isFollowed && (problem.code === 'unknown_reply' || problem.code === 'unsupported');
  if (isGone && turn === copied) turn.state = 'elsewhere';
  else turn.state = isLost || isGone ? 'interrupted' : 'failed';
  if (turn.state === 'failed') turn.problem = problem;
}

/** Codes of a session that has ended. */
const LOSSES: readonly (string | undefined)[] = ['session_lost', 'session_closed', 'draining'];

function isStopped(turn: Turn): boolean {
  return turn.state === 'stopped';
}

function isOver({ state }: ClientSession): boolean {
  return state === 'closing' || state === 'closed';
}
