"""A trainer of your own under coevo: plain REINFORCE in PyTorch, nothing hidden.

    coevo train --set trainer=command --set 'command=[python, examples/command_trainer.py]' ...

coevo starts it with the path of recipe.json as its last argument and looks at what it leaves: a Hugging Face folder at `out`, and one
evidence row per rollout at `evidence` (docs/rewards.md has both). All else is yours; this one uses coevo's judge and reward, and its
group baseline, but its own sampling, loss and optimizer.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from coevo.config import parse
from coevo.evaluation.judge import Judge
from coevo.evolution.edits import apply_reply
from coevo.evolution.types import Edit
from coevo.programs import Program
from coevo.tasks import load_task
from coevo.training.advantages import advantages
from coevo.training.rewards import reward_of
from coevo.training.settings import Recipe
from coevo.training.types import Sample, Scored


def sample(model, tokenizer, messages, recipe: Recipe):
    """One group: prompt ids and a list of reply ids, drawn from the model itself (no top-k, no top-p)."""
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)[
        "input_ids"
    ]
    out = model.generate(
        prompt.repeat(recipe.group_size, 1),
        attention_mask=torch.ones(recipe.group_size, prompt.shape[1], dtype=torch.long),
        do_sample=True,
        top_k=0,
        top_p=1.0,
        temperature=recipe.episode.temperature,
        max_new_tokens=recipe.episode.max_tokens,
        pad_token_id=tokenizer.pad_token_id,
    )
    replies = []
    for row in out[:, prompt.shape[1] :].tolist():
        end = row.index(tokenizer.eos_token_id) + 1 if tokenizer.eos_token_id in row else len(row)
        replies.append(row[:end])
    return prompt[0].tolist(), replies


def judged(judge: Judge, state: dict, text: str, tokens: int, recipe: Recipe) -> tuple[Sample | None, float | None]:
    """What the reward sees of a reply, None where it could not be measured; and its hidden truth. No program is worth nothing."""
    parent = Program.of(state["program"], judge.task.start.main) if state["program"] else judge.task.start
    proposal = apply_reply(parent, text, Edit(state["style"]))
    program = proposal.program
    public = judge.evaluate(program, split="public", seed=0) if program else None
    hidden = judge.evaluate(program, split="hidden", seed=0) if program else None
    if public and public.fitness is None:
        return None, None
    seen = Sample(
        parent_fitness=state["fitness"] or 0.0,
        fitness=public.fitness if public else None,
        correctness=public.correctness if public else None,
        efficiency=public.efficiency if public else None,
        contract_ok=program is not None,
        rejection=proposal.rejection.value if proposal.rejection else "",
        program_hash=program.id if program else "",
        parent_hash=parent.id if state["program"] else "",
        text=text,
        source=program.source if program else "",
        tokens=tokens,
        max_tokens=recipe.episode.max_tokens,
    )
    return seen, (hidden.fitness if hidden else 0.0)


def loss_of(
    model, prompt: list[int], replies: list[list[int]], weights: list[float], temperature: float
) -> torch.Tensor:
    """REINFORCE: -(sum of advantage * log-probability) over all sampled tokens, divided by their number."""
    longest = max(map(len, replies))
    rows = torch.tensor([prompt + reply + [0] * (longest - len(reply)) for reply in replies])
    logits = model(rows).logits[:, len(prompt) - 1 : -1] / temperature
    logs = torch.log_softmax(logits, dim=-1).gather(2, rows[:, len(prompt) :, None])[:, :, 0]
    sampled = torch.arange(longest)[None, :] < torch.tensor([len(reply) for reply in replies])[:, None]
    return -(torch.tensor(weights)[:, None] * logs * sampled).sum() / sampled.sum()


def main() -> None:
    if len(sys.argv) < 2 or not Path(sys.argv[-1]).is_file():
        sys.exit(f"{__doc__}\nIt is given the path of recipe.json as its last argument; `coevo train` does that.")
    told = json.loads(Path(sys.argv[-1]).read_text())
    recipe = parse(Recipe, told["recipe"], where="recipe.json")
    if told["states"] is None:
        sys.exit("this trainer needs start states: name tasks in states.tasks")
    states = [json.loads(line) for line in Path(told["states"]).read_text().splitlines()]
    torch.manual_seed(told["seed"])
    torch.set_num_threads(recipe.engine.threads or torch.get_num_threads())
    model = AutoModelForCausalLM.from_pretrained(told["weights"], dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(told["weights"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.lr, weight_decay=0.0)
    judges: dict[str, Judge] = {}
    with reward_of(recipe.reward) as reward, open(told["evidence"], "w") as evidence:
        for step in range(1, recipe.steps + 1):
            for group in range(recipe.groups):
                state = states[(step * recipe.groups + group) % len(states)]
                folder = state["task_folder"]
                judge = judges.setdefault(folder, Judge(load_task(folder), sandbox=recipe.sandbox))
                prompt, replies = sample(model, tokenizer, state["messages"], recipe)
                texts = [tokenizer.decode(reply, skip_special_tokens=True) for reply in replies]
                results = [
                    judged(judge, state, text, len(ids), recipe) for text, ids in zip(texts, replies, strict=True)
                ]
                scored = iter(reward([seen for seen, _ in results if seen]))
                scored = [next(scored) if seen else Scored(None, reason="could not be judged") for seen, _ in results]
                found = [row[0] for row in advantages([[one.reward] for one in scored], recipe.advantage)]
                loss = loss_of(model, prompt, replies, [a or 0.0 for a in found], recipe.episode.temperature)
                (loss / recipe.groups).backward()
                for i, ((seen, truth), one) in enumerate(zip(results, scored, strict=True)):
                    where = {
                        "step": step,
                        "split": "train",
                        "task": state["task"],
                        "group": f"{step}.{group}",
                        "sample": i,
                    }
                    what = {
                        "reward": one.reward,
                        "parts": dict(one.parts),
                        "unmeasured_reason": one.reason,
                        "truth": truth,
                    }
                    more = {"response": texts[i], "tokens": len(replies[i]), "advantage": found[i]}
                    seen_as = {"fitness": seen.fitness, "parent_fitness": seen.parent_fitness} if seen else {}
                    evidence.write(json.dumps({**where, **what, **more, **seen_as}) + "\n")
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.optim.max_grad_norm or float("inf"))
            optimizer.step()
            optimizer.zero_grad()
            print(f"step {step}: reward {sum(one.reward or 0 for one in scored) / len(scored):.3f}", flush=True)
    for judge in judges.values():
        judge.close()
    model.save_pretrained(told["out"])
    tokenizer.save_pretrained(told["out"])


if __name__ == "__main__":
    main()
