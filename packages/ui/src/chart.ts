import { create } from './dom.js';
import { bytes } from './format.js';
import { bothWays, type TurnTraffic } from './traffic.js';

/** Bytes of each turn as a pair of bars; for screen readers, a list of sentences. */
export interface Chart {
  readonly element: HTMLElement;
  show(turns: readonly TurnTraffic[]): void;
}

/** Turns that fit next to each other on a phone. */
const SHOWN = 12;

interface Column {
  readonly item: HTMLElement;
  readonly http: HTMLElement;
  readonly socket: HTMLElement;
  readonly label: HTMLElement;
  readonly words: HTMLElement;
}

export function createChart(): Chart {
  const scale = create('p', { className: 'scale', ariaHidden: 'true' });
  const list = create('ol', { className: 'columns', ariaLabel: 'Bytes of each turn' });
  const columns: Column[] = [];

  return {
    element: create('div', { className: 'chart' }, scale, list),

    show(turns) {
      const first = Math.max(0, turns.length - SHOWN);
      const shown = turns.slice(first).map(bothWays);
      const most = Math.max(1, ...shown.flatMap(({ http, socket }) => [http, socket]));
      scale.textContent = bytes(most);
      // Columns are reused, so that their bars grow instead of being redrawn.
      while (columns.length < shown.length) {
        const column = createColumn();
        columns.push(column);
        list.append(column.item);
      }
      for (const [index, { http, socket }] of shown.entries()) {
        const column = columns[index] as Column;
        const turn = first + index + 1;
        column.http.style.height = `${(http / most) * 100}%`;
        column.socket.style.height = `${(socket / most) * 100}%`;
        column.label.textContent = String(turn);
        column.words.textContent = `Turn ${turn}: ${bytes(socket)} on the socket, ${bytes(http)} as plain HTTP`;
        column.item.title = column.words.textContent;
      }
    },
  };
}

function createColumn(): Column {
  const http = create('i', { className: 'bar http', ariaHidden: 'true' });
  const socket = create('i', { className: 'bar socket', ariaHidden: 'true' });
  const label = create('span', { className: 'turn', ariaHidden: 'true' });
  const words = create('span', { className: 'unseen' });
  return {
    item: create('li', {}, create('div', { className: 'pair' }, http, socket), label, words),
    http,
    socket,
    label,
    words,
  };
}
