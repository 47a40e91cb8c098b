/** Hands on the messages of a fast answer together. A browser gives a page each one that waits before it paints the next frame. */

/** A page shows no more frames than one in this time, in milliseconds. */
const FRAME_MS = 16;
/** Handling so many takes less than two frames on a slow machine. */
const MOST = 128;

const waiting: (readonly [WebSocket, MessageEvent])[] = [];
let passedAt = -Infinity;

/**
 * Holds a message that comes in the time of a frame in which others came. One that comes after a pause is handled at once. A hidden page,
 * whose timers are slow, handles each at once. Nothing is held across a close.
 *
 * @param event `message` or `close` of the socket, before its other listeners have it.
 */
export function gather(socket: WebSocket, event: Event): void {
  // A message that was held.
  if (!event.isTrusted) return;
  if (event.type === 'close') return pass(Infinity);
  const now = performance.now();
  if (waiting.length === 0 && (document.hidden || now - passedAt >= FRAME_MS)) {
    passedAt = now;
    return;
  }
  event.stopImmediatePropagation();
  if (waiting.push([socket, event as MessageEvent]) === 1) setTimeout(passSome, FRAME_MS);
}

function passSome(): void {
  pass(document.hidden ? Infinity : MOST);
  if (waiting.length > 0) setTimeout(passSome, FRAME_MS);
}

function pass(most: number): void {
  for (const [socket, { data }] of waiting.splice(0, most)) {
    socket.dispatchEvent(new MessageEvent('message', { data }));
  }
  passedAt = performance.now();
}
