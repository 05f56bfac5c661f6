// What can be done, each with a question before it.

export const actions = {
  worker: () => null,
  job: () => null,
  task: () => null,
};
