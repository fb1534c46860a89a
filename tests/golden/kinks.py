"""How close a model comes to the kinks of its ReLUs, where rounding could decide on its side."""
import torch


class KinkDistance:
    """The least distance of any input of a ReLU or ReLU6 of the model from where its slope jumps."""

    def __init__(self, model):
        self.least = float("inf")
        for module in model.modules():
            if isinstance(module, torch.nn.ReLU):
                module.register_forward_pre_hook(lambda _, x: self.see(x[0], [0]))
            elif isinstance(module, torch.nn.ReLU6):
                module.register_forward_pre_hook(lambda _, x: self.see(x[0], [0, 6]))

    def see(self, x, kinks):
        for kink in kinks:
            self.least = min(self.least, (x.detach() - kink).abs().min().item())
