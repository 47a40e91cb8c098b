/** The type of a value after it has travelled as JSON. */
export type AsJson<Value> = unknown extends Value
  ? Value
  : Value extends { toJSON(): infer Json }
    ? AsJson<Json>
    : Value extends ((...args: never[]) => unknown) | symbol
      ? never
      : Value extends object
        ? { [Key in keyof Value]: AsJson<Value[Key]> }
        : Value;
