import { LinkKind } from '../subject.js';
import { LINK_KINDS } from './link-kinds.js';

/** The traffic of a target's sessions, which shows whether they get far and use everything. */
export interface Figures {
  sessions: number;
  /** Bodies that a session under test has accepted. */
  bodies: number;
  /** Link frames that reached a session under test, by kind. */
  readonly frames: number[];
}

export function createFigures(): Figures {
  return { sessions: 0, bodies: 0, frames: LINK_KINDS.map(() => 0) };
}

export function addFigures(into: Figures, { sessions, bodies, frames }: Figures): void {
  into.sessions += sessions;
  into.bodies += bodies;
  for (const [kind, count] of frames.entries()) into.frames[kind] = (into.frames[kind] ?? 0) + count;
}

/** @param isTaken whether the session survived the frame. */
export function countFrame(
  figures: Figures,
  frame: Uint8Array | string,
  hasLink: boolean,
  isTaken: boolean,
): void {
  const { type, kind } = kindOf(frame, hasLink);
  // A damaged frame may have an unknown kind.
  if (type === 'link' && kind < LINK_KINDS.length) figures.frames[kind] = (figures.frames[kind] ?? 0) + 1;
  if (type !== 'control' && kind <= LinkKind.CHUNK && isTaken) figures.bodies++;
}

function kindOf(
  frame: Uint8Array | string,
  hasLink: boolean,
): { readonly type: 'link' | 'bare' | 'control'; readonly kind: number } {
  if (typeof frame === 'string') {
    const isData = frame.includes('"type":"DATA"') || !frame.startsWith('{');
    return { type: isData ? 'bare' : 'control', kind: 0 };
  }
  const first = frame[0] ?? 0;
  if (first >> 4 === 1 && hasLink) return { type: 'link', kind: first & 0x0f };
  const isControl = (first >= 0x80 && first <= 0x8f) || first >= 0xde;
  return { type: isControl ? 'control' : 'bare', kind: 0 };
}

/** Readable lines for the console. */
export function figuresShown(name: string, { sessions, bodies, frames }: Figures): string[] {
  const all = Math.max(
    1,
    frames.reduce((sum, count) => sum + count, 0),
  );
  const shares = LINK_KINDS.map((kind, i) => `${kind} ${((100 * (frames[i] ?? 0)) / all).toFixed(1)} %`);
  const depth = (bodies / Math.max(1, sessions)).toFixed(0);
  return [
    `${name}: ${sessions} sessions, ${depth} accepted bodies each on average, ${all} link frames:`,
    `  ${shares.join(', ')}`,
  ];
}
