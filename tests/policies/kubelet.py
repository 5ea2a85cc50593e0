"""A ConfigMap as the kubelet mounts it."""


class Mount:
    """A ConfigMap's mount point, written in the steps of the kubelet's atomic writer."""

    def __init__(self, folder):
        self.folder = folder
        self.version = 0

    def write(self, **files):
        self.version += 1
        fresh = self.folder / f"..v{self.version}"
        fresh.mkdir()
        for name, text in files.items():
            (fresh / f"{name}.yaml").write_text(text)
            link = self.folder / f"{name}.yaml"
            if not link.is_symlink():
                link.symlink_to(f"..data/{name}.yaml")
        data = self.folder / "..data"
        before = data.resolve() if data.exists() else None
        (self.folder / "..data_tmp").symlink_to(fresh.name)
        (self.folder / "..data_tmp").replace(data)
        if before is not None:
            for file in before.iterdir():
                file.unlink()
            before.rmdir()
