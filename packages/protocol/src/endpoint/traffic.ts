/** Bytes on a socket in each direction: headers of frames, pings, pongs and close frames included; HTTP, TLS and TCP are not. */
export interface Traffic {
  readonly sent: number;
  readonly received: number;
}
