import type { ClientSession, WebSocketConstructor } from '@parlance/client';
import { byId } from '../shared/dom.js';
import { count } from '../shared/format.js';
import { askWritten, createAnswering } from './answering.js';
import { createBreakCard } from './break.js';
import { createComposer, LONG_ANSWER } from './composer.js';
import { createSetup } from './composing/setup.js';
import { createShortcuts } from './composing/shortcuts.js';
import { createThemeSwitch } from './composing/theme.js';
import { type Attachment, createForeignTurn, createTurn, type Turn, wordsOf } from './conversation.js';
import { type Connection, CuttableSocket } from './cuttable-socket.js';
import { stageOf } from './endings.js';
import { createChatList } from './history/chat-list.js';
import { Chats } from './history/chats.js';
import { createInterruptions } from './interruptions.js';
import { loadModel } from './load-model.js';
import { createLog } from './log.js';
import { createModelChoice } from './model-choice.js';
import { createNotice } from './notice.js';
import { createPanel } from './panel.js';
import { NO_READING } from './proof/reading.js';
import { createSessionLink, type LinkState, PING_MS } from './session-link.js';
import { createSilence, type Hearing, isDeaf, sayQuiet } from './silence.js';
import { createLight } from './status.js';
import { arrive } from './tab.js';
import { createTraffic } from './traffic.js';
import { createRecording } from './wire/recording.js';

/** A chat over one session, with this page's own server or the one in `?server=ws://…`. */

const server = new URLSearchParams(location.search).get('server') ?? ownServer();
/** The names that requests of this page have on the wire. */
const replyNames = new WeakMap<Turn, string>();
const { isCopy, awayMs } = await arrive();
const chats = await Chats.load(server);
const { shown, memory } = chats;
/** The tab had a conversation when this page was loaded. */
const hadTurns = memory.turns !== undefined;
const traffic = createTraffic();
let session: ClientSession | undefined;
/** Of the files of one question: browsers and APIs take not much more. */
const MAX_FILE_BYTES = 8_000_000;
/** That of the session, or its last one. */
let connection: Connection | undefined;
/** A move that takes longer has failed, in milliseconds. */
const MOVE_MS = 1_000;
/** A shorter silence gets no mark, in milliseconds. */
const SILENCE_MS = 1_000;
/** How often the present session was resumed. */
let resumed = 0;
/** The turn whose answer the present connection has interrupted last: asked again, it would be interrupted again. */
let interrupted: Turn | undefined;
/** The question that is being edited. */
let edited: Turn | undefined;

const panel = createPanel();
const log = createLog({
  versionsOf: (turn) => shown.versions(turn),
  onAskAgain: askAgain,
  onEdit: edit,
  onShowWire: showWire,
  onVersion: showVersion,
  onProof: async (turn) => {
    if (session === undefined || turn.reading.written !== undefined) return;
    await askWritten(turn, session);
    void chats.save(turn);
  },
});
const recording = createRecording(
  () => shown.last?.question ?? 'a new chat',
  CuttableSocket as WebSocketConstructor,
  (direction, length) => {
    traffic.frame(direction, length);
    if (direction === 'received') silence.hear();
  },
);
const composer = createComposer(
  {
    onSend: send,
    maxFileBytes,
    onStop: () => answering.stop(),
    onEditLast: () => shown.last && edit(shown.last),
    onWrite: () =>
      void loadModel().then(
        () => choice.settle(),
        () => {},
      ),
  },
  isCopy,
);
const light = createLight((now) => {
  notice.tick(now);
  if (interruptions.tick()) showTraffic();
});
const interruptions = createInterruptions(
  (turn) => log.mark(turn),
  (caught) => light.back(caught),
);
const bytesReceived = () => session?.stats().received.wireBytes ?? 0;
const silence = createSilence(PING_MS, bytesReceived, handleHearing);
/** The answer that is read in the tab of which this one is a copy. */
const copied = isCopy ? shown.last : undefined;
const answering = createAnswering({
  traffic,
  silence,
  interruptions,
  isCopied: (turn) => turn === copied,
  onBegin(turn) {
    composer.setAnswering(true);
    void chats.save(turn);
    if (turn.reply !== undefined) replyNames.set(turn, turn.reply.name);
  },
  onPiece: (turn) => chats.saveSoon(turn),
  onPaint: showAnswer,
  onEnd: handleEnd,
  takeEnd: (turn) => chats.takeEnd(turn),
  onFigures(turn) {
    showAnswer(turn);
    chats.saveSoon(turn);
  },
  onNotStopped: (why) => log.remark(`The server did not stop the answer: ${why}`),
});
const breakCard = createBreakCard({
  onFreeze: () => interruptions.freeze(),
  ask() {
    if (answering.turn === undefined) send(LONG_ANSWER, [], false);
  },
  letters: () => answering.turn && wordsOf(answering.turn).length,
});
const setup = createSetup();
const choice = createModelChoice(async () => session && (await loadModel()).listModels(session.fetch));
const notice = createNotice(server, {
  onRetry: () => link.tryNow(true),
  onToken: () => void chats.changeUser(),
  isAnswering: () => answering.turn !== undefined,
});
const list = createChatList(chats, {
  onOpen: (id) => void open(id),
  onShown: showChat,
});
chats.events = {
  running: () => answering.turn,
  onList: () => list.update(),
  onMerged: showMerged,
  onGone: startAgain,
  onStop: () => answering.stop(),
  onFull: () =>
    log.remark('This browser has no room for more · this chat is kept only as long as this tab is open'),
};
const link = createSessionLink(breakCard.address(server), recording.WebSocket, handleLinkState);
// The network is back, so there is no need to wait for the countdown.
window.addEventListener('online', () => link.tryNow());
const startNew = () => {
  answering.stop();
  startAgain();
  composer.focus();
};
byId('new').addEventListener('click', startNew);
createShortcuts(startNew, () => list.search());
createThemeSwitch();
if (memory.omitted.turns > 0)
  log.remark(
    `${count(memory.omitted.turns, 'earlier turn')} did not fit into the store of this tab · the model is not given ${memory.omitted.turns === 1 ? 'it' : 'them'} either`,
  );
showChat();
if (copied !== undefined)
  log.remark(
    chats.isKept
      ? 'This tab is a copy of another one · both show the same chat'
      : 'This tab is a copy of another one · each of them continues the conversation by itself',
  );

function ownServer(): string {
  return new URL('/session', location.href.replace(/^http/, 'ws')).href;
}

function handleLinkState(state: LinkState): void {
  session = 'session' in state ? state.session : undefined;
  document.body.dataset['state'] = state.name;
  const { hearing } = silence;
  // A server that drains has the page open another connection first; so does a page over HTTP that can have a WebSocket.
  const { newest } = CuttableSocket;
  const isMove = state.name === 'suspended' && newest !== undefined && newest !== connection;
  const movesUntil = isMove ? Date.now() + MOVE_MS : 0;
  if (state.name === 'connected') connection = newest;
  silence.setConnected(state.name === 'connected');
  light.show(state, silence.hearing, movesUntil);
  breakCard.setConnected(state.name === 'connected');
  notice.show(state, movesUntil);
  // Messages sent while the session is suspended go out when it resumes.
  composer.setConnected(state.name === 'connected' || state.name === 'suspended', state.name);
  if (state.name === 'suspended')
    interruptions.lose(answering.turn, isDeaf(hearing) ? hearing.ms : 0, isMove);
  if (state.name !== 'connected' || session === undefined) return;
  interrupted = undefined;
  resumed = state.since === 'resumed' ? resumed + 1 : 0;
  traffic.follow(session);
  recording.follow(session);
  panel.showSession(session, server, resumed);
  showTraffic();
  if (state.since === 'resumed') {
    const what = interruptions.resume();
    if (what !== undefined)
      log.remark(`${what.slice(0, 1).toUpperCase()}${what.slice(1)} · the session continues`);
  }
  void goOn(session, state.since === 'first');
  if (state.since === 'new') {
    log.remark(
      shown.last === undefined
        ? 'Connected again, in a new session'
        : 'Connected again, in a new session · the next question sends the conversation once more',
    );
  }
}

function handleHearing(before: Hearing): void {
  const { hearing } = silence;
  document.body.classList.toggle('silent', hearing.name !== 'live');
  const isBack = isDeaf(before) && before.ms >= SILENCE_MS && !isDeaf(hearing);
  // After a loss, its own mark says how long that took.
  if (isBack && answering.turn !== undefined && link.state.name === 'connected')
    interruptions.hear(answering.turn, before.heardMs);
  light.show(link.state, hearing);
  log.tell(answering.turn, link.state.name === 'connected' ? sayQuiet(hearing) : '');
}

function send(question: string, files: readonly Attachment[], isEdited: boolean): void {
  if (isEdited && edited !== undefined) for (const turn of shown.cut(edited)) log.remove(turn);
  edited = undefined;
  ask(createTurn(question, shown.last?.id, files));
}

function ask(turn: Turn): void {
  chats.add(turn);
  log.add(turn);
  showNew();
  if (session === undefined) return;
  void answering.answer(turn, session, async (signal, { fetch }, size) => {
    const { askModel } = await loadModel();
    await choice.settle();
    return askModel(choice.model, setup(), shown.path, signal, fetch, size);
  });
}

/** Of what the server takes in one message, without the room for the conversation. */
function maxFileBytes(): number {
  const most = session?.negotiated.maxPayloadSize ?? 0;
  return most === 0 ? MAX_FILE_BYTES : Math.min(MAX_FILE_BYTES, most / 2);
}

function edit(turn: Turn): void {
  if (!answering.isFree || turn.question === undefined) return;
  edited = turn;
  composer.edit(turn);
}

/** Asks once more, in another version of the turn. */
function askAgain(turn: Turn): void {
  if (session === undefined || answering.turn !== undefined || turn.question === undefined) return;
  const again = createTurn(turn.question, turn.parent, turn.files);
  for (const each of shown.cut(turn)) log.remove(each);
  if (wordsOf(turn) === '' && turn.state !== 'interrupted') {
    // There is nothing to go back to, and nothing was lost.
    again.traffic = turn.traffic;
    void chats.drop(turn);
  }
  ask(again);
  // The button has gone.
  composer.focus();
}

function showVersion(version: Turn): void {
  shown.choose(version);
  log.show(shown.path);
  chats.saveHead();
  settle();
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

/** Continues an answer that was not complete when the page was loaded, or when the last session ended. */
async function goOn(usedSession: ClientSession, isFirst: boolean): Promise<void> {
  if (isFirst && !hadTurns) await joinOtherTab(usedSession);
  const turn = shown.last;
  if (turn?.reply === undefined || answering.turn !== undefined || session !== usedSession) return;
  if (isFirst && hadTurns && awayMs > 0) interruptions.reload(turn, awayMs);
  void answering.answer(turn, usedSession);
}

/** In a tab without a conversation, shows an answer that another tab of this profile waits for. */
async function joinOtherTab(usedSession: ClientSession): Promise<void> {
  // A server that keeps no replies refuses the question.
  const replies = await usedSession.replies().catch(() => []);
  const found = replies.find(({ isOwn, state }) => isOwn && state === 'running');
  if (found === undefined || shown.last !== undefined) return;
  const turn = createForeignTurn(found.id);
  chats.add(turn);
  log.add(turn);
  showNew();
}

async function handleEnd(turn: Turn, sessionId: string): Promise<void> {
  const saved = chats.save(turn);
  composer.setAnswering(false);
  if (turn.state === 'interrupted') interrupted = turn;
  // Another tab may have received what this one could not.
  if (turn.state === 'interrupted' || turn.state === 'elsewhere') void chats.refresh();
  const isOther = shown.last !== undefined && shown.last !== turn;
  settle();
  // The next session may be there before the loss of the last one is known here.
  const isNext = session?.id !== sessionId;
  if (session?.state === 'established' && (isOther || isNext)) void goOn(session, false);
  await saved;
}

/** Shows another chat; an answer that is being received arrives in its own. */
async function open(id: string): Promise<void> {
  if (id === chats.openId || !(await chats.show(id))) return;
  showChat();
  if (session !== undefined) void goOn(session, false);
}

/** Shows no chat: the next question begins one. */
function startAgain(): void {
  edited = undefined;
  chats.begin();
  showChat();
}

function showChat(): void {
  log.show(shown.path);
  showTraffic();
  showNew();
  settle();
}

function showMerged(changed: readonly Turn[]): void {
  log.show(shown.path);
  for (const turn of changed) log.update(turn);
  showTraffic();
  showNew();
  if (answering.turn !== undefined) return;
  settle();
  if (session !== undefined && shown.last !== interrupted) void goOn(session, false);
}

/** Tells the composer how the last answer has ended. */
function settle(): void {
  composer.settle(stageOf(shown.last));
}

function showNew(): void {
  byId('new').hidden = shown.last === undefined;
}

function showAnswer(turn: Turn): void {
  log.update(turn);
  showTraffic();
}

function showTraffic(): void {
  const { omitted } = memory;
  const turns = omitted.turns > 0 ? [{ ...omitted, reading: NO_READING }, ...shown.all] : shown.all;
  panel.showTraffic(turns, traffic.overhead(), omitted.turns);
}
