/** The first byte of a message that wishes for something else than an echo; no payload begins so. */
export const Wish = {
  /** Send to me without end. */
  FLOOD: 2,
  /** Read nothing of mine any more. */
  IGNORE: 3,
} as const;
