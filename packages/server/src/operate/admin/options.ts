import { ProtocolError } from '@parlance/protocol';
import { assertOptions } from '@parlance/protocol/internal';

export interface AdminOptions {
  /** 0 chooses a free port. @default 0 */
  readonly port?: number | undefined;
  /** @default '127.0.0.1' */
  readonly host?: string | undefined;
  /** The token that every request has to present, as `Authorization: Bearer`: visible ASCII, 16 characters or more. */
  readonly token: string;
  /** `operate` also closes sessions and drains the server. @default 'read' */
  readonly mode?: 'read' | 'operate' | undefined;
}

export type ResolvedAdminOptions = Required<{
  [Name in keyof AdminOptions]: NonNullable<AdminOptions[Name]>;
}>;

const MIN_TOKEN = 16;

/** @throws {ProtocolError} `invalid_option`; its message never contains the token. */
export function resolveAdminOptions(given: AdminOptions): ResolvedAdminOptions {
  assertOptions(given, { port: 'number', host: 'text', token: 'text', mode: 'text' }, 'admin');
  const { port = 0, host = '127.0.0.1', token, mode = 'read' } = given;
  if (typeof token !== 'string' || !/^[!-~]+$/.test(token) || token.length < MIN_TOKEN)
    throw new ProtocolError(
      'invalid_option',
      `admin.token: expected ${MIN_TOKEN} or more visible ASCII characters without spaces`,
    );
  if (mode !== 'read' && mode !== 'operate')
    throw new ProtocolError('invalid_option', "admin.mode: expected 'read' or 'operate'");
  return { port, host, token, mode };
}
