/** Each exchange, and the turns of the event loop in which the server has something to do for it. */
export const TURNS = {
  'a request, answered at once': 1,
  'a request, two parts at once': 1,
  'a request, answered by an async function': 1,
  'a request, answered a turn later': 2,
  'a request, two parts, a turn before each': 3,
  'a message each way': 1,
  'a durable message each way, committed': 1,
} as const;
export type Trip = keyof typeof TURNS;
