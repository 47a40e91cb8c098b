/** The first byte of a message that asks for something other than an echo; no payload begins with it. */
export const Wish = {
  /** Send me messages without end. */
  FLOOD: 2,
  /** Stop reading my messages. */
  IGNORE: 3,
} as const;
