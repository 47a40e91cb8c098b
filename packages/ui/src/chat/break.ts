import { byId, create } from '../shared/dom.js';
import { tabName } from '../shared/profile.js';

/** The card with which people break the connection. Only the demo's server carries out what the page cannot. */
export interface BreakCard {
  /** The address of the session, at which the demo's server recognizes this tab. */
  readonly address: (server: string) => string;
}

export interface BreakEvents {
  onFreeze(): void;
}

const { demo, freezeMs = '0' } = document.documentElement.dataset;

export function createBreakCard({ onFreeze }: BreakEvents): BreakCard {
  const list = byId('break-actions');
  const told = byId('break-told');
  const wish = async (name: string) => {
    const response = await fetch(`${demo}${name}?tab=${tabName()}`, { method: 'POST' });
    if (!response.ok) throw new Error(`the demo answered ${response.status}`);
  };
  const add = (name: string, title: string, text: string, run: () => unknown) => {
    const button = create('button', { type: 'button' }, create('b', {}, title), create('small', {}, text));
    button.dataset['break'] = name;
    button.addEventListener('click', async () => {
      try {
        await run();
      } catch (error) {
        told.textContent = `That did not work: ${error instanceof Error ? error.message : error}.`;
      }
    });
    list.append(create('li', {}, button));
  };

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
    add('restart', 'Restart the server', 'drain, then a new one', () => wish('restart'));
  else told.textContent = 'Or switch off your network for a while, in mid-answer.';

  return {
    address(server) {
      if (demo === undefined || !URL.canParse(server)) return server;
      const url = new URL(server);
      url.searchParams.set('tab', tabName());
      return url.href;
    },
  };
}
