"""A graph as manifests: Kubernetes objects, KubeRay's RayService, what watches them."""
