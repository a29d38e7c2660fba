"""The primitives of one policy: sample, logprobs, forward_backward, optim_step, save, load, capabilities."""
