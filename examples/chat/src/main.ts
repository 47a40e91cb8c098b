import { ProtocolError, type ReplyStream, type Session } from '@parlance/client';
import { createComposer } from './composer.js';
import { chatRequest, createTurn, type Turn } from './conversation.js';
import { byId } from './dom.js';
import { createLog } from './log.js';
import { createNotice } from './notice.js';
import { createPanel } from './panel.js';
import { createSessionLink, type LinkState } from './session-link.js';
import { createTraffic } from './traffic.js';

/** A chat over one session. Its server is this page's own, or the one that `?server=ws://…` names. */

const server = new URLSearchParams(location.search).get('server') ?? ownServer();
const turns: Turn[] = [];
const traffic = createTraffic();
let session: Session | undefined;
let running: { readonly turn: Turn; readonly stream: ReplyStream } | undefined;

const panel = createPanel();
const log = createLog(askAgain);
const composer = createComposer({ onSend: ask, onStop: stop });
const notice = createNotice(server, () => link.tryNow());
const link = createSessionLink(server, handleLinkState);
// The network is back: no reason to wait for the countdown.
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
  composer.setConnected(state.name === 'connected');
  if (state.name !== 'connected' || session === undefined) return;
  traffic.follow(session);
  panel.showSession(session, server);
  panel.showTraffic(traffic);
  if (state.since === 'resumed') log.remark('Connected again. Nothing is missing.');
  if (state.since === 'anew') {
    log.remark(
      turns.length === 0
        ? 'Connected again, in a new session.'
        : 'Connected again, in a new session. The next message sends the whole conversation anew.',
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
      return 'Connection lost';
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

/** Only the last turn can be repeated: what follows a turn was said in its light. */
function askAgain(turn: Turn): void {
  if (session === undefined || running !== undefined || turn !== turns.at(-1)) return;
  Object.assign(turn, createTurn(turn.question));
  log.update(turn, undefined);
  void answer(turn);
}

function stop(): void {
  if (running === undefined) return;
  running.turn.state = 'stopped';
  running.stream.cancel();
}

/** Sends the whole conversation, whose last turn is `turn`, and shows the answer as it comes. */
async function answer(turn: Turn): Promise<void> {
  if (session === undefined) return;
  const asked = session;
  const meter = traffic.begin();
  const show = () => {
    log.update(turn, meter.read());
    panel.showTraffic(traffic);
  };
  try {
    const request = chatRequest(turns);
    const stream = asked.stream(request);
    running = { turn, stream };
    composer.setAnswering(true);
    meter.sent(request);
    show();
    for await (const part of stream) {
      meter.received(part);
      turn.answer += part.text;
      turn.state = 'streaming';
      show();
    }
    // `stop` is heard between two parts; by now, nothing else can have ended the loop early.
    if (!isStopped(turn)) turn.state = 'done';
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    const isLost = error.code === 'session_lost' || asked.state !== 'established';
    turn.state = isLost ? 'interrupted' : 'failed';
    if (turn.state === 'failed') turn.problem = `${error.code}: ${error.message}`;
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
