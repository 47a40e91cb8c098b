import { byId, create } from '../shared/dom.js';
import { tabName } from '../shared/profile.js';
import { CuttableSocket } from './cuttable-socket.js';

/** The card with which people break the connection. Only the demo's server carries out what the page cannot. */
export interface BreakCard {
  /** The address of the session, at which the demo's server recognizes this tab. */
  readonly address: (server: string) => string;
  /** Whether there is a session to break. */
  setConnected(isConnected: boolean): void;
}

export interface BreakEvents {
  onFreeze(): void;
  /** Asks something that has a long answer, unless one is being read. */
  ask(): void;
  /** Letters of the answer that is being read; `undefined` if none is. */
  letters(): number | undefined;
}

/** How much of an answer is read before it is cut. */
const READ_LETTERS = 250;
const LOOK_MS = 100;

const { demo, freezeMs = '0' } = document.documentElement.dataset;

export function createBreakCard({ onFreeze, ask, letters }: BreakEvents): BreakCard {
  const list = byId('break-actions');
  const told = byId('break-told');
  const wish = async (name: string) => {
    const response = await fetch(`${demo}${name}?tab=${tabName()}`, { method: 'POST' });
    if (!response.ok) throw new Error(`the demo answered ${response.status}`);
  };
  const attempt = async (run: () => unknown) => {
    try {
      await run();
    } catch (error) {
      told.textContent = `That did not work: ${error instanceof Error ? error.message : error}.`;
    }
  };
  const add = (name: string, title: string, text: string, run: () => unknown) => {
    const button = create('button', { type: 'button' }, create('b', {}, title), create('small', {}, text));
    button.dataset['break'] = name;
    button.addEventListener('click', () => attempt(run));
    list.append(create('li', {}, button));
  };

  const cut = async () => (demo === undefined ? CuttableSocket.cut() : await wish('cut'));
  const show = byId<HTMLButtonElement>('show-me');
  show.addEventListener('click', async () => {
    ask();
    told.textContent = 'Read on. The connection is cut in a moment.';
    await until(() => letters() === undefined || Number(letters()) >= READ_LETTERS);
    if (letters() === undefined) {
      told.textContent = 'The answer was too short to be cut.';
      return;
    }
    await attempt(async () => {
      const isAway = until(() => document.body.dataset['state'] !== 'connected');
      await cut();
      told.textContent = 'Cut. The server keeps what the model writes, and this page comes back by itself.';
      await isAway;
      await until(() => document.body.dataset['state'] === 'connected');
      told.textContent = 'Back. The mark in the answer shows where it was cut; its foot says what has come.';
    });
  });
  if (demo === undefined) byId<HTMLDetailsElement>('break').open = false;

  if (demo !== undefined) {
    const seconds = Math.round(Number(freezeMs) / 1000);
    add('cut', 'Cut the connection', 'in mid-answer', () => wish('cut'));
    add('freeze', `Freeze it for ${seconds} s`, 'no bytes, no close', async () => {
      await wish('freeze');
      onFreeze();
      told.textContent = `Nothing passes for ${seconds} s. Keep reading.`;
      setTimeout(() => {
        told.textContent = '';
      }, Number(freezeMs));
    });
  }
  add('reload', 'Reload this page', 'the answer continues', () => location.reload());
  if (demo !== undefined)
    add('restart', 'Replace the server', 'another one takes over', () => wish('restart'));
  else told.textContent = 'You can also switch off your network in mid-answer.';

  return {
    setConnected(isConnected) {
      show.disabled = !isConnected;
    },
    address(server) {
      if (demo === undefined || !URL.canParse(server)) return server;
      const url = new URL(server);
      url.searchParams.set('tab', tabName());
      return url.href;
    },
  };
}

/** Resolves as soon as it is so. */
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
}
