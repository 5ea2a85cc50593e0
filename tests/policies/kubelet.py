"""A ConfigMap as the kubelet mounts it."""


class Mount:
    """A ConfigMap's mount point, written in the steps of the kubelet's atomic writer."""

    def __init__(self, folder):
        self.folder = folder
        self.version = 0

    def write(self, others=None, **files):
        """Replace all files: `name=text` means name.yaml; `others` are by their whole names."""
        self.version += 1
        fresh = self.folder / f"..v{self.version}"
        fresh.mkdir()
        for name, text in ({f"{name}.yaml": text for name, text in files.items()} | (others or {})).items():
            (fresh / name).write_text(text)
            link = self.folder / name
            if not link.is_symlink():
                link.symlink_to(f"..data/{name}")
        data = self.folder / "..data"
        before = data.resolve() if data.exists() else None
        (self.folder / "..data_tmp").symlink_to(fresh.name)
        (self.folder / "..data_tmp").replace(data)
        if before is not None:
            for file in before.iterdir():
                file.unlink()
            before.rmdir()
        for link in self.folder.iterdir():
            if link.is_symlink() and not link.exists():
                link.unlink()
