/**
 * Frames that libzstd 1.5.4 wrote (`ZSTD_compressStream2`, window 2^17), with a flush after each chunk: their
 * blocks are small, and repeat tables of earlier blocks.
 */
export interface GoldenFrame {
  /** The content: `chunks` times that many words of `createProse(seed)`, one after the other. */
  readonly seed: number;
  readonly chunks: number;
  readonly words: number;
  readonly base64: string;
}

export const GOLDEN_FRAMES: readonly GoldenFrame[] = [
  {
    seed: 11,
    chunks: 6,
    words: 14,
    base64:
      'KLUv/QA4NAIAooUQE6ClbSByl88lyTatG0lVVaP/qgZ37MuUoTlatpqHxflqiN2pl9giwxXR+kGbn1rUHmBSMal+DKg9IMIV' +
      'oWhzDmBSADQCAEJFDxLAJR0ykbh3aptIZJHbqip0zROF5CSKzAaw864z05l8GjtfujlWSFpFqyskphAMM12rKAycxlxnwVAi' +
      'TCcBAA6CegJEAgCShA4ToKVtJFSqifymPvjUzP7/X/33GveZBz73OBLFLA68RO9xX43MayChlobEHAEUs1y95pscSKVYx4gg' +
      'AwCnapQdssW29wUQAgByZWwgZGFyIHB1c251bmZvciBrZWwgZ2F0IG5vIHJhbnZldG51biBwYXMgcG8gbm8ga2VsIHdlcyBj' +
      'aWx0b3Mgbm9UAgASBQ8SsCVtLdvb5uGTJY1QTpKAKYEI94eRM3qrURzs527Vu5juqiByJtRE5IoWH34WlADSWbTsrciCVU5B' +
      'BwIDACRWtFhtisq14EUCABQDbm8gdmlzZHVuaWNhdG9zcml0ZHUgcml0IG1pcHVzZGlnaW53ZW4gZGFybGlyIHNhcwcAKpvl' +
      'Z5uyLwz8QKVHG10TpDdbRQ==',
  },
  {
    seed: 12,
    chunks: 4,
    words: 90,
    base64:
      'KLUv/QA45AkAppg6FLClOd2I+Jak7SnbEumtkyQ6JRABNQA0ADQABbAVrFS04hKKRGCBphl0AypUZCY/1DfSiqISskpdAJeb' +
      'H5on+OEqmvMmj9QCaULzw7HUPBI2fONYQsJ1CWjlHItuwEp1/VOsdAGw0tK5LqcLpRVp5hzx8EizSlpQvC9ZgF6cIrWUZZoB' +
      '/rnrIi7AeapvIDMuH/PkxYtv1AUoOuHmPBUJnyJZ5aRIGG/8sECW8c+554hEgG64gYc9AS8u9zxlpaIXaOVSXeRS/aEvbLZA' +
      '0Urxpi6CN6ToBKzUJM6pk9pKmoA3zSpNC/IDfvQlHygQGoKYuwcQohOoodJu1ACGLSZ5g29kN4RPDHIgDwE9r62Ov+9ZDcq6' +
      'rFXEKedjOuoL7R7X+yoZr9UQvzhXb5EnE5DdwAw4rpi84yswBhwKAAcXNDIAMgAzAC+aVhihNvcQxptLRitZyT9JCM0q6Ia6' +
      'jJXSguMFPUWMRJA3RTegE9CQ8PGciwqlFYQD/kEiQGYsoRfFG2SmacEp0nPOm0O4WYCmCXnSPIIX1AJ5xGUCz7kIKqEuUqeX' +
      'TrmyEgpYrOQSUJFHDgEoKpQ3BTrBRQTnbAIvOEVaJ8tkoWYV/KgFih9pRV/QSv1TmWaQQCtIBA1YeQgAKtRztIvgWZEm1CWU' +
      'OTZap75hww+HADQJAQnXBFQCKlT8QCJofvCNSshM8SYtwAsuKCBCQoxSzAcQEDFrOYcolgKuz1KKji74ID/AD8Q1HgLFmy1B' +
      'r/iqnOyQrBTDIbo7jz4gnFqw+d8q9KLYjaRYuL6wAYbAJOh61XEaGepe+LAKEluARWD15c9CnIZh1CBW15jcmsOFRkh5n5vb' +
      'pCssbAgAU04fWJk3xxL+hqkFbLMgWMBVB4lAMLZSJIljxsMb59gX4qBCdWrGm+IFwaWawCxTC9xw7p9jw7pIViKEF1tpHrmg' +
      'jqk8x0MAzlNakZVu6rLNeF9CN7ROmmCuzUKxUtBD+FjyjV7CCwiheAgnIbyUwEMALFCAc/yQxkMrtckbIgg6uGCIoSJp0wEQ' +
      'YsnEhTUUBZbrbu8kNlW+Kq/LvlnAVWUwuodlduEXwwzzIlkhs0RXurZb+wPtrSrAQcIfBFHLR0fqcOlMShIKURHIL4HSKf/r' +
      'B6Pgbzb1lbGKUgOfYd0R/oWO5Z4Yjc+rWxqixhTXexgSbSMuUEtqLyHGfUQisbt5WFVInFwr2Ef6WEodCABzzBo2422pP6Eo' +
      'WCCLJFQowMOsUgC0gofoBf7YKH6c4wVoJvAkC1XWJfgD3tRSLXAsHUs9x1ohBBvHBjKs4FgiArRyzi7hnD/8lHACVo4sVGTF' +
      'IXqBFVwC9JwJxCvXhmjuJcPWqSO2AqDZUvGCczuogZUmdajJsBkQFAEhSEE+EGo3NbWsAcvBA5GOgQ5SLsVBr+Ua44vFkdk5' +
      'WWczMiX8jYcWIq3Qjwpl5aiyWWE6QlszXPWDPK2ZFGGcb/jP1vK+tWYOondmnhiR2jJa6WZe42cb2UREuqPABCSV/n/qsk/F' +
      'iA4fHkQLGB3IXUZ4gjewS/kg0w5EIuCTI5EtyS1KNi8T',
  },
  {
    seed: 13,
    chunks: 8,
    words: 50,
    base64:
      'KLUv/QA4bAYAtlErELDrROJgFRue59kySVJTAhElACYAJgDMz+W2ZZ/Zsqfw8UMdb03htqUNxhBZkzyXbvD3R+NnWWZNbVkC' +
      'Zqiey8/ycWs2f6wRnstr3LZotg/h50phRXSadUM65gg0CTvGbAPpGLxPS4i8xuzoMjNUTogUFdUQz2fdoIjSCFuezh/fZ0X0' +
      'FF6DD7o/GuuGZUZ2BD/My9xG8g9jqDTVp+lhqPZl+TofzcdH0NEaQ+QKCBDq3QEQo7WqMjZaxn9jkOEKbP0wF3gqILtyBjQF' +
      'AHNKFsv8IZalY9oWH6+odDRFZEUMR/P9U5iZdIQZorSMLXNa5qMmUUQvfAjdO2EZwSMcb0Xlp2gZrKkeQY/xx31YSzNUCVHA' +
      '8HTWFJqiDeZ9X5fu+GcxO49laSMFHgggnllTB0kDOYuqrsCyaDaAiPUNAIQbsdUGm62Nm5nrfWbjYALIFewMRQTwHmgqaGlN' +
      '5ZFvdjDcT4eTbtXDSmJm1/dNNDOpDGHEBAAjxg2ntX0MlaaucTptpGXf0sxTfKyfY9pIVmwhLRtNsyUsx6eyLM/SMrQ7xWnI' +
      'rMechop9LLcjYFkCKqjQTGxUaDMQGoExzroDEHBqCx1iP+HF1aQIDNNwrMZGlESIg2LOiIw5fjvdCwNxAn+eE3phYkU/AoYP' +
      '4dI3ONJ0snQUHtRufN01WngdYgIm0zxw0jKqNpMYTk5MJPQEANPFDIrtzydECUtqy7JYPBeGlsFoEnbUH9fBlrXnG+zrmNew' +
      'o2mEFCPoBvwaD8UQDcWajrDm+DGs8Exsi8UQEAEhCEF6AzQTgumycyYluFwmIrr349Jl52th2MMKGruKAoZqWcDI/3Cdz6vy' +
      'v3iVdBTolLRjsN4wX5+XIzIc6QJXnF1r3lD+iBQvlZn9mFdcZH5lp93nMUO6Qx8yTQcCnAQAEwQJCQuiEbSsc4rIbYy2T7GN' +
      'l7ZlNI/wZMcftiaPJuxLPx0ydh6yMqggT2Y5IAJCBIag5QMQgEpJB7njQ9bWGP494jvEZvyW5k0/ciShtnhMgiavd1vhdunz' +
      'ZwRIrSwjXUo1gfNcbwybwyTWzo+8bQEwp+Fn9C4qQEEFhu2SdBQKRH5FDL70ahVaZEjdfBziuA8xbAQAswMIul+zimiox0Ia' +
      '4fvExpbuvw6PwOkotpbFI7hoKh6f9gUxrEBppjEQEAEhRDFpBwaDDFj5uhSnf01WtuzveerkKyo2A1K6zW2/GIN7umQEufG1' +
      'eMHANi4clYP6Wz8iwFnmV+N6UGtrMHBLJEIIkIm3gJncsqZ2iUYEjUvkq6h2UmfV5XaiH0oPPCUGDAQA40EEJhXTssGOnsZO' +
      'otnHFNHxAkcy6BAQIUHIqfMBEGhJlGYMDMouzrvmSNfUZVZ4bF4RzyTMJdpJaPhFZrQxzDJ8ZeHinmWZN10KtRfsZVgDOQE4' +
      'vL5JeaSjYGDc2yQxKPB65sdgc5FgOZ41tuIZqxHJqunwoFn7HDbhgt9rSVdoLQQAgwIGDBE7ioettiyNoBBpOjsWOnY+voax' +
      'ZVsCM/gQeFmSYt1hIU4VKoIyviD6EY/MR+VasIyR+pGfUoBIhwwHjj2PNttBB2oz6p93i65/W38UxV1CAJ+F31yMgCXmjd+1' +
      'DbKpJUpvFjC9mjjAa4kebBMe5488YFh+uPLqmKRzm6OZy1k+Bg==',
  },
];
