/** Each exchange, and the ticks of the event loop in which the server has something to do for it. */
export const TICKS = {
  'a request, answered at once': 1,
  'a request, two parts at once': 1,
  'a request, answered by an async function': 1,
  'a request, answered a tick later': 2,
  'a request, two parts, a tick before each': 3,
  'a message each way': 1,
  'a durable message each way, committed': 1,
} as const;
export type Trip = keyof typeof TICKS;
