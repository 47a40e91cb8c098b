export * from '@parlance/protocol/contract';
