import { draw } from './dom.js';

/** Small pictures on buttons, drawn in their colour. */

const PATHS = {
  copy: 'M6 6V3.5A1.5 1.5 0 0 1 7.5 2h5A1.5 1.5 0 0 1 14 3.5v5a1.5 1.5 0 0 1-1.5 1.5H10M3.5 6h5A1.5 1.5 0 0 1 10 7.5v5A1.5 1.5 0 0 1 8.5 14h-5A1.5 1.5 0 0 1 2 12.5v-5A1.5 1.5 0 0 1 3.5 6z',
  done: 'M3 8.5l3.5 3.5L13 4.5',
  wrap: 'M2 4h12M2 8h9.5a2.25 2.25 0 0 1 0 4.5H8M10 10.5l-2 2 2 2M2 12.5h3',
} as const;

export type IconName = keyof typeof PATHS;

export function icon(name: IconName): SVGElement {
  const svg = draw('svg', { class: 'icon', viewBox: '0 0 16 16', 'aria-hidden': 'true' });
  svg.append(draw('path', { d: PATHS[name] }));
  return svg;
}
