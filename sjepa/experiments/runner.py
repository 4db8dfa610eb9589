EXPERIMENTS = {}


def run(): ...
