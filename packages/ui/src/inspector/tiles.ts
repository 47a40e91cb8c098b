import { create } from '../shared/dom.js';
import { bytes, count, duration, number } from '../shared/format.js';
import type { Totals } from './store.js';
import { differenceText, savedPercent } from './words.js';

/** The figures of the record. */
export class Tiles {
  readonly element = create('dl', { className: 'tiles' });
  readonly #values = new Map<string, HTMLElement>();

  constructor() {
    for (const name of ['frames', 'on the wire', 'content', 'saved', 'reply parts', 'resumed', 'errors']) {
      const value = create('dd');
      this.#values.set(name, value);
      this.element.append(create('div', {}, create('dt', {}, name), value));
    }
  }

  /** @param dropped frames that are counted and no longer kept. */
  show(totals: Totals, dropped: number): void {
    const { frames, wire, content, parts, partBytes, resumes, lastGapMs, again, errors } = totals;
    this.#set('frames', number(frames), dropped === 0 ? '' : `the last ${number(frames - dropped)} are kept`);
    this.#set('on the wire', bytes(wire));
    this.#set('content', bytes(content));
    const percent = content === 0 ? 0 : savedPercent(wire, content);
    if (content === 0) this.#set('saved', '–');
    else this.#set('saved', `${Math.max(0, percent)}\u00a0%`, differenceText(wire, content));
    this.#set('reply parts', number(parts), parts === 0 ? '' : `${(partBytes / parts).toFixed(1)} B each`);
    const gap = lastGapMs === undefined ? '' : duration(lastGapMs);
    const rewritten = again === 0 ? '' : `${count(again, 'frame')} again`;
    this.#set('resumed', `${number(resumes)}\u00a0×`, [gap, rewritten].filter(Boolean).join(', '));
    this.#set('errors', number(errors));
    this.#values.get('errors')?.classList.toggle('trouble', errors > 0);
  }

  #set(name: string, figure: string, remark = ''): void {
    const value = this.#values.get(name);
    const text = `${figure} ${remark}`;
    if (value === undefined || value.dataset['text'] === text) return;
    value.dataset['text'] = text;
    value.replaceChildren(
      create('b', {}, figure),
      ...(remark === '' ? [] : [' ', create('small', {}, remark)]),
    );
  }
}
