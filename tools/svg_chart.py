"""Bar and line charts as SVG text, with nothing but the standard library. See tools/plots.py."""
import math
from xml.sax.saxutils import escape

COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#f0e442",
           "#000000"]  # Okabe and Ito's, told apart by the colour-blind
LEFT, TOP, BOTTOM, RIGHT = 64, 66, 96, 24
HEIGHT = 440


def number(value):
    """As people write it: three figures, no trailing zeros."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def nice_step(span, about):
    """The 1, 2 or 5 times a power of ten that cuts `span` into about `about` parts."""
    raw = span / about
    power = 10 ** math.floor(math.log10(raw))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)


class Axis:
    """Maps values to [0, 1]; linear, or logarithmic of base 2 or 10."""

    def __init__(self, low, high, log=0):
        self.log = log
        if log:
            self.low = math.floor(math.log(low, log) + 1e-9)
            self.high = max(self.low + 1, math.ceil(math.log(high, log) - 1e-9))
            self.ticks = [log ** e for e in range(self.low, self.high + 1)]
            return
        high = high if high > low else low + 1
        step = nice_step(high - low, 6)
        self.low = math.floor(low / step + 1e-9) * step
        self.high = math.ceil(high / step - 1e-9) * step
        count = round((self.high - self.low) / step)
        self.ticks = [self.low + i * step for i in range(count + 1)]

    def place(self, value):
        if self.log:
            value = math.log(value, self.log)
        return (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)


class Chart:
    def __init__(self, title, subtitle, x_label, y_label, width=760):
        self.width = width
        self.parts = []
        self.legend = []
        self.plot = (LEFT, TOP, width - LEFT - RIGHT, HEIGHT - TOP - BOTTOM)
        self.text(LEFT, 22, title, size=15, weight="bold")
        self.text(LEFT, 40, subtitle, size=11, colour="#555")
        self.text(LEFT + self.plot[2] / 2, HEIGHT - 8, x_label, anchor="middle")
        self.text(16, TOP + self.plot[3] / 2, y_label, anchor="middle",
                  more=f'transform="rotate(-90 16 {TOP + self.plot[3] / 2:.1f})"')

    # --- pieces

    def text(self, x, y, words, size=12, anchor="start", colour="#222", weight="normal", more=""):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{colour}" font-weight="{weight}" {more}>{escape(str(words))}</text>')

    def line(self, x1, y1, x2, y2, colour="#222", width=1.0, dash=""):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          f'stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dash}"/>')

    def y(self, axis, value):
        return self.plot[1] + self.plot[3] * (1 - axis.place(value))

    def frame(self, axis, reference):
        left, _, width, _ = self.plot
        for tick in axis.ticks:
            y = self.y(axis, tick)
            self.line(left, y, left + width, y, "#e2e2e2")
            self.text(left - 6, y + 4, number(tick), size=11, anchor="end")
        if reference is not None:
            y = self.y(axis, reference)
            self.line(left, y, left + width, y, "#555", 1.2, "5 4")

    def finish(self):
        x = LEFT
        for i, name in enumerate(self.legend):
            self.parts.append(f'<rect x="{x:.1f}" y="49" width="10" height="10" '
                              f'fill="{COLOURS[i % len(COLOURS)]}"/>')
            self.text(x + 14, 58, name, size=11)
            x += 26 + 6.2 * len(name)
        body = "\n".join(self.parts)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {HEIGHT}" '
                f'width="{self.width}" height="{HEIGHT}" font-family="sans-serif">\n'
                f'<rect width="{self.width}" height="{HEIGHT}" fill="#fff"/>\n{body}\n</svg>\n')

    # --- charts

    def bars(self, groups, series, low=0.0, log=0, reference=None, whiskers=None):
        """`series`: name -> one value a group; `whiskers`: name -> (least, most) a group."""
        self.legend = list(series)
        values = [v for vs in series.values() for v in vs]
        values += [v for pairs in (whiskers or {}).values() for pair in pairs for v in pair]
        if reference is not None:
            values.append(reference)
        axis = Axis(min(low, *values) if not log else min(values), max(values), log)
        self.frame(axis, reference)
        left, top, width, height = self.plot
        slot = width / len(groups)
        bar = 0.8 * slot / len(series)
        for g, group in enumerate(groups):
            centre = left + slot * (g + 0.5)
            self.group_label(centre, group, len(groups))
            for s, (name, of_group) in enumerate(series.items()):
                x = centre + bar * (s - len(series) / 2)
                y = self.y(axis, of_group[g])
                self.parts.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{bar * 0.92:.1f}" '
                    f'height="{top + height - y:.1f}" fill="{COLOURS[s % len(COLOURS)]}">'
                    f'<title>{escape(f"{group}, {name}: {number(of_group[g])}")}</title></rect>')
                middle = x + bar * 0.46
                head = y
                if whiskers:
                    least, most = (self.y(axis, v) for v in whiskers[name][g])
                    self.line(middle, least, middle, most, width=1.2)
                    head = min(y, most)
                if bar >= 20:
                    self.text(middle, head - 4, number(of_group[g]), size=9, anchor="middle")
        self.line(left, top + height, left + width, top + height)
        return self.finish()

    def group_label(self, x, words, groups):
        """Level if there is room, else at a slant; "A + B" in two lines."""
        y = self.plot[1] + self.plot[3] + 16
        for part in str(words).replace(" + ", "\n+ ").split("\n"):
            if groups <= 5:
                self.text(x, y, part, size=11, anchor="middle")
            else:
                self.text(x + 4, y, part, size=11, anchor="end",
                          more=f'transform="rotate(-24 {x + 4:.1f} {y:.1f})"')
            y += 13

    def lines(self, series, low=None, log_x=0, log_y=0, reference=None):
        """`series`: name -> [(x, y), ...]."""
        self.legend = list(series)
        xs = sorted({x for points in series.values() for x, _ in points})
        ys = [y for points in series.values() for _, y in points]
        if reference is not None:
            ys.append(reference)
        least = min(ys) if low is None else min(low, *ys)
        x_axis, y_axis = Axis(xs[0], xs[-1], log_x), Axis(least, max(ys), log_y)
        self.frame(y_axis, reference)
        left, top, width, height = self.plot
        for x in x_axis.ticks:
            self.text(left + width * x_axis.place(x), top + height + 16, number(x), size=11,
                      anchor="middle")
        for s, (name, points) in enumerate(series.items()):
            at = [(left + width * x_axis.place(x), self.y(y_axis, y)) for x, y in points]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
            colour = COLOURS[s % len(COLOURS)]
            self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                              f'stroke-width="2"/>')
            for (x, y), (of_x, of_y) in zip(at, points):
                self.parts.append(
                    f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>'
                    f'{escape(f"{name}, {number(of_x)}: {number(of_y)}")}</title></circle>')
        self.line(left, top + height, left + width, top + height)
        return self.finish()
